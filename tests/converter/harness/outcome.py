"""What becomes of a harness: converted, run and judged."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import jax
import numpy as np
import onnx
import onnx_ir as ir
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented, RuntimeException

import converter
from tests.conformance import assert_close
from tests.converter.harness.table import arguments
from tests.judges.evaluator import evaluate

Kind: TypeAlias = Literal["right", "no kernel", "refused", "wrong", "broken"]

KINDS: tuple[Kind, ...] = ("right", "no kernel", "refused", "wrong", "broken")

NO_KERNEL = re.compile("NOT_IMPLEMENTED|BFloat16 data type is not supported")
"""What ONNX Runtime says where it knows the operator, and has it on other devices."""


@dataclass(frozen=True)
class Outcome:
    """What a file is.

    ``right`` in ONNX Runtime; ``no kernel`` if it is in bfloat16, for which ONNX Runtime has hardly
    any on a CPU, and right by the standard's evaluator; ``broken`` if it does not load or run, or
    if there is no file and no reason that was meant.
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
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    try:
        verdict = converter.check(export, harness.dyn_fun, inputs)
    except converter.CheckError as error:
        return Outcome("wrong", str(error))
    except (NotImplemented, RuntimeException) as error:
        if np.dtype(harness.dtype).name != "bfloat16" or not NO_KERNEL.search(str(error)):
            raise
        return by_the_standard(export, harness, inputs)
    if verdict.passed:
        return Outcome("right")
    return Outcome("wrong", "; ".join(map(str, verdict.differences)))


def by_the_standard(
    export: converter.Export, harness: Any, inputs: Sequence[np.ndarray]
) -> Outcome:
    """The outcome of a file that ONNX Runtime cannot run."""
    wanted = jax.tree.leaves(harness.dyn_fun(*inputs))
    got = evaluate(ir.to_proto(export.model), inputs)
    try:
        for actual, right in zip(got, wanted, strict=True):
            assert_close(actual, right)
    except AssertionError as error:
        return Outcome("wrong", f"in onnx.reference: {error}")
    return Outcome("no kernel")
