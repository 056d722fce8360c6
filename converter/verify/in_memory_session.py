"""A session on tensors in memory, which are lent to it: none is serialised, parsed or copied."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
from onnx_ir.serde import SerdeError

from converter.model.streaming import INLINE, with_external

PLAIN = frozenset(
    ir.DataType[name]
    for name in (
        *("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL"),
        *(f"{kind}{bits}" for kind in ("INT", "UINT") for bits in (8, 16, 32, 64)),
    )
)
"""Types whose tensors ONNX Runtime takes from numpy as they are; others stay in the model."""


def lent(model: ir.Model, options: ort.SessionOptions, **how: Any) -> ort.InferenceSession:
    """Run a model of any size. **Raises** what a weight program raises."""
    held = {name: value.const_value for name, value in model.graph.initializers.items()}
    outside = {
        name: tensor
        for name, tensor in held.items()
        if tensor is not None and tensor.nbytes > INLINE and tensor.dtype in PLAIN
    }
    given = {name: ort_value_of(tensor.numpy(), tensor.dtype) for name, tensor in outside.items()}
    options.add_external_initializers(list(given), list(given.values()))
    live = ort.InferenceSession(_serialised(model, [*outside.values()]), options, **how)
    # A session keeps only their addresses, so they are to live as long as it does.
    weakref.finalize(live, given.clear).atexit = False
    return live


def ort_value_of(array: np.ndarray, dtype: ir.DataType) -> ort.OrtValue:
    """An array as ONNX Runtime has it."""
    array = np.ascontiguousarray(array).reshape(array.shape)
    if dtype == ir.DataType.BFLOAT16:  # numpy has none of its own
        numbers = array.view(np.uint16)
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(numbers, dtype.value)
    return ort.OrtValue.ortvalue_from_numpy(array)


def _serialised(model: ir.Model, outside: list[ir.TensorProtocol]) -> bytes:
    """The model without some of its tensors.

    **Raises** what a weight program raises, not what is wrapped around that.
    """
    try:
        proto: bytes = with_external(model, outside, "lent").SerializeToString()
    except SerdeError as error:
        cause: BaseException = error
        while isinstance(cause, SerdeError) and cause.__cause__ is not None:
            cause = cause.__cause__
        raise cause from error
    return proto
