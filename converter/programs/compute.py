"""Computing values that depend on constants and parameters alone.

Constants are folded while converting; what depends on parameters is a *weight program*, evaluated
when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
compilation; anything else runs as the JAX operation it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from converter.graph import Node, Value, dims
from converter.graph.evaluate import precision, run_node
from converter.graph.origins import steps

# Results above this size stay in the graph unless they are no larger than what they come from.
CEILING = 1 << 20

Read = Callable[[Value], Any]


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any, **_: Any) -> Any:
    ones = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        ones[axis] = size
    return np.broadcast_to(x.reshape(ones), shape)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any, **_: Any) -> Any:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _iota(*, dtype: Any, shape: Any, dimension: int, **_: Any) -> Any:
    line = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(np.expand_dims(line, _others(shape, dimension)), shape)


def _others(shape: Any, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape)) if i != axis)


def _integer_pow(x: Any, *, y: int, **_: Any) -> Any:
    """By repeated squaring, as JAX does; numpy takes no exponent that the dtype cannot hold."""
    result, square, left = np.ones_like(x), x, abs(y)
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result if y >= 0 else 1 / result


def _convert(x: Any, *, new_dtype: Any, **_: Any) -> Any:
    """To an integer beyond its range is the nearest that there is, and NaN is zero, as in XLA."""
    if new_dtype.kind not in "iu" or x.dtype.kind in "biu":
        return x.astype(new_dtype)
    info, wide = np.iinfo(new_dtype), x.astype(np.float64)
    beyond = np.where(wide > 0, info.max, np.where(wide < 0, info.min, 0)).astype(new_dtype)
    inside = (wide >= float(info.min)) & (wide < float(info.max // 2 + 1) * 2)
    return np.where(inside, np.where(inside, wide, 0).astype(new_dtype), beyond)


NUMPY: dict[str, Callable[..., Any]] = {
    "add": lambda x, y, **_: x + y,
    "sub": lambda x, y, **_: x - y,
    "mul": lambda x, y, **_: x * y,
    "max": lambda x, y, **_: np.maximum(x, y),
    "min": lambda x, y, **_: np.minimum(x, y),
    "neg": lambda x, **_: -x,
    "and": lambda x, y, **_: x & y,
    "or": lambda x, y, **_: x | y,
    "not": lambda x, **_: ~x,
    "eq": lambda x, y, **_: x == y,
    "ne": lambda x, y, **_: x != y,
    "lt": lambda x, y, **_: x < y,
    "le": lambda x, y, **_: x <= y,
    "gt": lambda x, y, **_: x > y,
    "ge": lambda x, y, **_: x >= y,
    "sqrt": lambda x, **_: np.sqrt(x),
    "exp": lambda x, **_: np.exp(x),
    "log": lambda x, **_: np.log(x),
    "sin": lambda x, **_: np.sin(x),
    "cos": lambda x, **_: np.cos(x),
    "square": lambda x, **_: x * x,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "reshape": lambda x, *, shape, **_: x.reshape(shape),
    "transpose": lambda x, *, permutation, **_: x.transpose(permutation),
    "broadcast_in_dim": _broadcast_in_dim,
    "slice": _slice,
    "concatenate": lambda *xs, dimension, **_: np.concatenate(xs, dimension),
    "convert_element_type": _convert,
}
"""What numpy computes as JAX does; ``tests/converter/test_numpy_table.py`` holds it to that."""

FLOATING: dict[str, Callable[..., Any]] = {
    "div": lambda x, y, **_: x / y,
    "pow": lambda x, y, **_: x**y,
}
"""The same, for floating point operands only."""


def compute(value: Value, read: Read, memo: dict[int, Any] | None = None) -> Any:
    """The array behind ``value``; ``read`` gives parameters and constants."""
    memo = {} if memo is None else memo
    for node in steps(value, memo):
        args = [memo[id(v)] if v.node is not None else read(v) for v in node.inputs]
        memo.update((id(v), r) for v, r in zip(node.outputs, _apply(node, args), strict=True))
    return read(value) if value.node is None else memo[id(value)]


def _apply(node: Node, args: list[Any]) -> list[Any]:
    table = FLOATING if node.op in FLOATING and _kinds(node) <= {"f"} else NUMPY
    if node.op not in table or not _kinds(node) <= set("biuf"):
        with precision([node]):
            return [_host(r) for r in run_node(node, args, {})]
    with np.errstate(all="ignore"):
        result = np.asarray(table[node.op](*map(np.asarray, args), **node.params))
    return [result.astype(node.out.dtype, copy=False)]


def _kinds(node: Node) -> set[str]:
    """The kinds of dtypes that a node has to do with, ``O`` for those that numpy has not."""
    dtypes = (v.dtype for v in (*node.inputs, *node.outputs))
    return {d.kind if isinstance(d, np.dtype) else "O" for d in dtypes}


def _host(array: Any) -> Any:
    """JAX arrays come home as numpy; PRNG keys, which have no numpy form, stay."""
    return np.asarray(array) if isinstance(array.dtype, np.dtype) else array


def is_computable(node: Node) -> bool:
    """Pure, without bodies, and of known shapes; not itself the value of a named dimension."""
    plain = not node.bodies and node.op != "dim_as_value"
    return plain and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))
