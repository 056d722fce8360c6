"""JAX functions and Equinox modules to ONNX.

    >>> import converter
    >>> export = converter.to_onnx(jax.vmap(model), [("batch", 3, 224, 224)], opset=23)
    >>> export.save("model.onnx")

``explain`` says what cannot be converted, ``check`` compares a file with JAX, ``bisect`` names the
step of a conversion that changes a number, ``join`` puts two models in a row.
"""

from converter.bisection import bisect
from converter.errors import CheckError, ConverterError, SaveError, SpecError, Unsupported
from converter.explanation import Explanation, Obstacle, explain
from converter.export import to_onnx
from converter.files.join import join
from converter.files.save import save
from converter.fuse.match import NearMiss
from converter.judge.check import Difference, Verdict, check
from converter.judge.errors import Errors, compare
from converter.judge.runtime import run, session
from converter.judge.watch import Change
from converter.lower import IR_VERSIONS, OPSETS
from converter.precision import emulate_bfloat16, lower_precision
from converter.result import Export, Report, report
from converter.settings import AttentionLayout

__all__ = [
    "IR_VERSIONS",
    "OPSETS",
    "AttentionLayout",
    "Change",
    "CheckError",
    "ConverterError",
    "Difference",
    "Errors",
    "Explanation",
    "Export",
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
    "explain",
    "join",
    "lower_precision",
    "report",
    "run",
    "save",
    "session",
    "to_onnx",
]
