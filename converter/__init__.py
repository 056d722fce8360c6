"""JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

``explain`` says what cannot be converted, ``check`` compares a file with JAX, ``bisect`` names the
step of a conversion that changes a number, ``join`` puts two models in a row. ``rule``,
``expansion`` and ``recogniser`` register what is to be converted in another way.
"""

from converter.bisection import bisect
from converter.errors import CheckError, ConverterError, SaveError, SpecError, Unsupported
from converter.expand.registry import expansion
from converter.explanation import Explanation, Obstacle, explain
from converter.export import to_onnx
from converter.files.join import join
from converter.files.save import save
from converter.fuse.match import NearMiss
from converter.fuse.registry import recogniser
from converter.judge.check import check
from converter.judge.runtime import run, session
from converter.judge.watch import Change
from converter.lower import IR_VERSIONS, OPSETS
from converter.lower.build import Builder
from converter.lower.registry import rule
from converter.metadata import Metadata
from converter.precision import emulate_bfloat16, lower_precision
from converter.result import Export, Report, report
from converter.scopes import extensions
from converter.settings import AttentionLayout
from converter.verdict import Difference, Errors, Verdict, compare

__all__ = [
    "IR_VERSIONS",
    "OPSETS",
    "AttentionLayout",
    "Builder",
    "Change",
    "CheckError",
    "ConverterError",
    "Difference",
    "Errors",
    "Explanation",
    "Export",
    "Metadata",
    "NearMiss",
    "Obstacle",
    "Report",
    "SaveError",
    "SpecError",
    "Unsupported",
    "Verdict",
    "bisect",
    "check",
    "compare",
    "emulate_bfloat16",
    "expansion",
    "explain",
    "extensions",
    "join",
    "lower_precision",
    "recogniser",
    "report",
    "rule",
    "run",
    "save",
    "session",
    "to_onnx",
]
