"""Convert one call of JAX's harness, run the file, and compare it with JAX."""

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
    """The result of one harness.

    ``right``: the file agrees with JAX in ONNX Runtime. ``strict``: only the file of a strict
    conversion does, and the other one reports a deviation. ``refused``: the conversion raised one
    of its own errors. ``wrong``: the file differs from JAX. ``broken``: the file does not load or
    run, or the conversion raised another error.
    """

    kind: Kind
    detail: str = ""


def outcome(harness: Any, opset: int = 23) -> Outcome:
    """Convert and check one harness. An exception of a broken harness is not caught."""
    inputs = arguments(harness)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    try:
        export = converter.to_onnx(harness.dyn_fun, specs, opset=opset)
    except (converter.UnsupportedError, converter.SpecError) as error:
        return Outcome("refused", str(error))
    result = check_file(export, harness, inputs)
    if result.kind != "wrong" or not export.report.deviations:
        return result
    strict_export = converter.to_onnx(harness.dyn_fun, specs, opset=opset, strict=True)
    strict_result = check_file(strict_export, harness, inputs)
    return Outcome("strict", result.detail) if strict_result.kind == "right" else strict_result


def check_file(export: converter.Export, harness: Any, inputs: Sequence[np.ndarray]) -> Outcome:
    """Return whether a file agrees with its harness: ``right``, or ``wrong`` with differences."""
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    try:
        verdict = converter.check(export, reference(harness), inputs)
    except converter.CheckError as error:
        return Outcome("wrong", str(error))
    if verdict.passed:
        return Outcome("right")
    return Outcome("wrong", "; ".join(map(str, verdict.differences)))
