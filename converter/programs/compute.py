"""Computing values that depend on constants and parameters alone.

Constants are folded while converting; what depends on parameters is a *weight program*, evaluated
when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
compilation; anything else runs as the JAX operation it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from converter.errors import SaveError
from converter.graph import Node, Value, dims
from converter.graph.dtypes import converted
from converter.graph.evaluate import precision, run_node
from converter.graph.origins import steps
from converter.refused import CALLING

# Results above this size stay in the graph unless they are no larger than what they come from.
CEILING = 1 << 20

Read = Callable[[Value], Any]


def _broadcast_in_dim(x: Any, *, shape: Any, broadcast_dimensions: Any) -> Any:
    ones = [1] * len(shape)
    for axis, size in zip(broadcast_dimensions, x.shape, strict=True):
        ones[axis] = size
    return np.broadcast_to(x.reshape(ones), shape)


def _slice(x: Any, *, start_indices: Any, limit_indices: Any, strides: Any) -> Any:
    steps = strides or [1] * x.ndim
    return x[tuple(map(slice, start_indices, limit_indices, steps))]


def _iota(*, dtype: Any, shape: Any, dimension: int) -> Any:
    line = np.arange(shape[dimension]).astype(dtype)
    return np.broadcast_to(np.expand_dims(line, _others(shape, dimension)), shape)


def _others(shape: Any, axis: int) -> tuple[int, ...]:
    return tuple(i for i in range(len(shape)) if i != axis)


def _integer_pow(x: Any, *, y: int) -> Any:
    """By repeated squaring, as JAX does; numpy takes no exponent that the dtype cannot hold."""
    result, square, left = np.ones_like(x), x, abs(y)
    while left:
        if left % 2:
            result = result * square
        square, left = square * square, left // 2
    return result if y >= 0 else 1 / result


def _factor(x: Any, *, divides: bool) -> Any:
    """**Raises** `SaveError` for what would make infinite weights: those of products make NaN."""
    if np.any(x == 0) if divides else np.any(np.isinf(x)):
        found = "a divisor of zero" if divides else "an infinite factor"
        raise SaveError(f"weights would take in {found}: mend it, or convert with fold=False")
    return x


NUMPY: dict[str, Callable[..., Any]] = {
    "factor": _factor,
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": lambda x, y: np.maximum(x, y),
    "min": lambda x, y: np.minimum(x, y),
    "neg": lambda x: -x,
    "and": lambda x, y: x & y,
    "or": lambda x, y: x | y,
    "not": lambda x: ~x,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
    "sqrt": lambda x: np.sqrt(x),
    "exp": lambda x: np.exp(x),
    "log": lambda x: np.log(x),
    "sin": lambda x: np.sin(x),
    "cos": lambda x: np.cos(x),
    "square": lambda x: x * x,
    "integer_pow": _integer_pow,
    "iota": _iota,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, permutation: x.transpose(permutation),
    "broadcast_in_dim": _broadcast_in_dim,
    "slice": _slice,
    "concatenate": lambda *xs, dimension: np.concatenate(xs, dimension),
    "convert_element_type": lambda x, *, new_dtype: converted(x, new_dtype),
}
"""What numpy computes as JAX does; ``tests/converter/test_numpy_table.py`` holds it to that."""

FLOATING: dict[str, Callable[..., Any]] = {
    "div": lambda x, y: x / y,
    "pow": lambda x, y: x**y,
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
            return [np.asarray(r) for r in run_node(node, args, {})]
    with np.errstate(all="ignore"):
        result = np.asarray(table[node.op](*map(np.asarray, args), **node.params))
    return [result.astype(node.out.dtype, copy=False)]


def _kinds(node: Node) -> set[str]:
    """The kinds of dtypes that a node has to do with."""
    return {v.dtype.kind for v in (*node.inputs, *node.outputs)}


def is_computable(node: Node) -> bool:
    """Pure, without bodies, and of known shapes; not itself the value of a named dimension."""
    plain = not node.bodies and node.op != "dim_as_value" and node.op not in CALLING
    return plain and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))
