"""What becomes of a harness: converted, run and judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import jax
import numpy as np
import onnx
import onnx_ir as ir

import converter
from tests.converter.harness.table import arguments, reference

Kind: TypeAlias = Literal["right", "strict", "refused", "wrong", "broken"]
KINDS = get_args(Kind)


@dataclass(frozen=True)
class Outcome:
    """What a file is.

    ``right`` in ONNX Runtime; ``strict`` if only a strict conversion is, and the other one reports
    that it may differ; ``broken`` if it does not load or run, or if there is no file and no reason
    that was meant.
    """

    kind: Kind
    detail: str = ""


def outcome(harness: Any, opset: int = 23) -> Outcome:
    """Convert, run and judge one harness; what is broken raises its own exception."""
    inputs = arguments(harness)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    try:
        export = converter.to_onnx(harness.dyn_fun, specs, opset=opset)
    except (converter.UnsupportedError, converter.SpecError) as error:
        return Outcome("refused", str(error))
    found = judged(export, harness, inputs)
    if found.kind != "wrong" or not export.report.deviations:
        return found
    strict = converter.to_onnx(harness.dyn_fun, specs, opset=opset, strict=True)
    exact = judged(strict, harness, inputs)
    return Outcome("strict", found.detail) if exact.kind == "right" else exact


def judged(export: converter.Export, harness: Any, inputs: Sequence[np.ndarray]) -> Outcome:
    """The outcome of a file."""
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    try:
        verdict = converter.check(export, reference(harness), inputs)
    except converter.CheckError as error:
        return Outcome("wrong", str(error))
    if verdict.passed:
        return Outcome("right")
    return Outcome("wrong", "; ".join(map(str, verdict.differences)))
