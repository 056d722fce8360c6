"""Parameters in a graph: which they are, their values, and values in their place."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

HELD_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16)

Change = Callable[[NDArray[np.float32]], NDArray[Any]]


def is_parameter(value: ir.Value | None, rank: int) -> bool:
    """Whether this is a parameter of that rank which one node reads."""
    if value is None or not value.is_initializer() or value.dtype not in HELD_FLOATS:
        return False
    return value.shape is not None and len(value.shape) == rank and len(value.uses()) == 1


def sides(value: ir.Value) -> tuple[int, ...]:
    """The shape of a parameter."""
    assert value.const_value is not None
    return tuple(value.const_value.shape.numpy())


def array(value: ir.Value) -> NDArray[np.float32]:
    """The numbers of a parameter, read anew."""
    assert value.const_value is not None
    return value.const_value.numpy().astype(np.float32, copy=False)


def later(value: ir.Value, dtype: ir.DataType, shape: Sequence[int], change: Change) -> ir.Value:
    """Tensor that `change` makes of a parameter, under its name, whenever it is read."""
    before = value.const_value
    assert before is not None

    def load() -> ir.TensorProtocol:
        changed = change(before.numpy().astype(np.float32, copy=False))
        return ir.tensor(changed.astype(dtype.numpy()), name=value.name)

    tensor = ir.LazyTensor(load, dtype=dtype, shape=ir.Shape(shape), name=value.name)
    return ir.Value(
        name=value.name, shape=ir.Shape(shape), type=ir.TensorType(dtype), const_value=tensor
    )


def change(value: ir.Value, how: Change) -> None:
    """Let a parameter be what `how` makes of it, of the same type and shape."""
    assert value.dtype is not None
    value.const_value = later(value, value.dtype, sides(value), how).const_value


def added(graph: ir.Graph, name: str, numbers: NDArray[Any]) -> ir.Value:
    """A new parameter of a graph."""
    tensor = ir.tensor(numbers, name=name)
    kind = ir.TensorType(tensor.dtype)
    value = ir.Value(name=name, shape=ir.Shape(numbers.shape), type=kind, const_value=tensor)
    graph.initializers.add(value)
    return value
