"""What becomes of a harness: converted, run and judged."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
import onnx
import onnx_ir as ir
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented, RuntimeException

import converter
from tests.conformance import assert_close
from tests.converter.harness.table import arguments, reference
from tests.judges.evaluator import evaluate

Kind: TypeAlias = Literal["right", "strict", "no kernel", "refused", "wrong", "broken"]

KINDS: tuple[Kind, ...] = ("right", "strict", "no kernel", "refused", "wrong", "broken")

NO_KERNEL = re.compile("NOT_IMPLEMENTED|BFloat16 data type is not supported")
"""What ONNX Runtime says where it knows the operator, and has it on other devices."""


@dataclass(frozen=True)
class Outcome:
    """What a file is.

    ``right`` in ONNX Runtime; ``strict`` if only a strict conversion is, and the other one reports
    that it may differ; ``no kernel`` if it is in bfloat16, for which ONNX Runtime has hardly any on
    a CPU, and right by the standard's evaluator; ``broken`` if it does not load or run, or if there
    is no file and no reason that was meant.
    """

    kind: Kind
    detail: str = ""


def outcome(harness: Any, opset: int = 23) -> Outcome:
    """Convert, run and judge one harness; what is broken raises its own exception."""
    inputs = arguments(harness)
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    try:
        export = converter.to_onnx(harness.dyn_fun, specs, opset=opset)
    except (converter.Unsupported, converter.SpecError) as error:
        return Outcome("refused", str(error))
    found = judged(export, harness, inputs)
    if found.kind != "wrong" or not export.report.deviations:
        return found
    strict = converter.to_onnx(harness.dyn_fun, specs, opset=opset, strict=True)
    exact = judged(strict, harness, inputs)
    return Outcome("strict", found.detail) if exact.kind == "right" else exact


def judged(export: converter.Export, harness: Any, inputs: Sequence[np.ndarray]) -> Outcome:
    """The outcome of a file."""
    proto, wanted = ir.to_proto(export.model), reference(harness)
    onnx.checker.check_model(proto, full_check=True)
    try:
        verdict = converter.check(export, wanted, inputs)
    except converter.CheckError as error:
        return Outcome("wrong", str(error))
    except (NotImplemented, RuntimeException) as error:
        if not (_holds_bfloat16(export) and NO_KERNEL.search(str(error))):
            raise
        return by_the_standard(proto, wanted, inputs)
    if verdict.passed:
        return Outcome("right")
    return Outcome("wrong", "; ".join(map(str, verdict.differences)))


def _holds_bfloat16(export: converter.Export) -> bool:
    values = (v for n in export.model.graph.all_nodes() for v in (*n.inputs, *n.outputs))
    return any(v is not None and v.dtype == ir.DataType.BFLOAT16 for v in values)


def by_the_standard(
    model: onnx.ModelProto, wanted: Callable[..., Any], inputs: Sequence[np.ndarray]
) -> Outcome:
    """The outcome of a file that ONNX Runtime cannot run."""
    results = jax.tree.leaves(wanted(*inputs))
    try:
        for actual, right in zip(evaluate(model, inputs), results, strict=True):
            assert_close(actual, right)
    except AssertionError as error:
        return Outcome("wrong", f"in onnx.reference: {error}")
    return Outcome("no kernel")
