"""JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

The stages are functions of their own: ``trace``, ``simplify``, ``fuse``, ``arrange``, ``lower``,
``tidy``, ``save``, ``check``; ``join`` puts two models in a row.
"""

from __future__ import annotations

from converter.arrange import AttentionLayout, arrange
from converter.check import Errors, check, compare, run, session
from converter.errors import CheckError, ConverterError, SaveError, SpecError, Unsupported
from converter.export import Export, Report, report, to_onnx
from converter.fuse import NearMiss, fuse
from converter.graph import Graph
from converter.join import join
from converter.lower import IR_VERSIONS, OPSETS, lower
from converter.precision import emulate_bfloat16, lower_precision
from converter.save import save
from converter.simplify import simplify
from converter.tidy import tidy
from converter.trace import trace

__all__ = [
    "IR_VERSIONS",
    "OPSETS",
    "AttentionLayout",
    "CheckError",
    "ConverterError",
    "Errors",
    "Export",
    "Graph",
    "NearMiss",
    "Report",
    "SaveError",
    "SpecError",
    "Unsupported",
    "arrange",
    "check",
    "compare",
    "emulate_bfloat16",
    "fuse",
    "join",
    "lower",
    "lower_precision",
    "report",
    "run",
    "save",
    "session",
    "simplify",
    "tidy",
    "to_onnx",
    "trace",
]
