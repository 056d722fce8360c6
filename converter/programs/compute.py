"""Computing values that depend on constants and parameters alone.

Constants are folded while converting; what depends on parameters is a *weight program*, evaluated
when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
compilation; anything else runs as the JAX operation it is.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import numpy as np

from converter.graph import Node, Value, dims
from converter.graph.evaluate import run_node

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
    return x**y if y >= 0 else 1 / x ** (-y)


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
    "convert_element_type": lambda x, *, new_dtype, **_: x.astype(new_dtype),
}
# numpy and JAX agree on these for floating point operands only
FLOATING: dict[str, Callable[..., Any]] = {
    "div": lambda x, y, **_: x / y,
    "pow": lambda x, y, **_: x**y,
}


def compute(value: Value, read: Read, memo: dict[int, Any] | None = None) -> Any:
    """The array behind ``value``; ``read`` gives parameters and constants."""
    memo = {} if memo is None else memo
    for node in steps(value, memo):
        args = [memo[id(v)] if v.node is not None else read(v) for v in node.inputs]
        memo.update((id(v), r) for v, r in zip(node.outputs, _apply(node, args), strict=True))
    return read(value) if value.node is None else memo[id(value)]


def steps(value: Value, done: Container[int]) -> Iterator[Node]:
    """The nodes that make ``value``, each after those that it reads.

    What is ``done`` is left out; whoever asks adds a node's outputs to it before the next.
    """
    # Depth first without recursion: programs can be deep.
    stack = [value.node] if value.node is not None else []
    while stack:
        node = stack[-1]
        waiting = [v.node for v in node.inputs if v.node is not None and id(v) not in done]
        if waiting:
            stack.extend(waiting)
            continue
        stack.pop()
        if id(node.outputs[0]) not in done:
            yield node


def _apply(node: Node, args: list[Any]) -> list[Any]:
    out = node.outputs[0]
    plain = (
        isinstance(out.dtype, np.dtype)
        and out.dtype.kind in "biuf"
        and all(isinstance(a, np.ndarray) for a in args)
    )
    table: Mapping[str, Callable[..., Any]] = NUMPY
    if plain and out.dtype.kind == "f" and node.op in FLOATING:
        table = FLOATING
    if not plain or node.op not in table:
        return [_host(r) for r in run_node(node, args, {})]
    with np.errstate(all="ignore"):
        result = np.asarray(table[node.op](*args, **node.params))
    return [result.astype(out.dtype, copy=False)]


def _host(array: Any) -> Any:
    """JAX arrays come home as numpy; PRNG keys, which have no numpy form, stay."""
    return np.asarray(array) if isinstance(array.dtype, np.dtype) else array


def is_computable(node: Node) -> bool:
    """Pure, without bodies, and of known shapes; not itself the value of a named dimension."""
    plain = not node.bodies and node.op != "dim_as_value"
    return plain and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))


def sources(value: Value) -> dict[int, Value]:
    """The parameters and constants that a value is made from, by id."""
    seen: set[int] = set()
    found: dict[int, Value] = {}
    stack = [value]
    while stack:
        current = stack.pop()
        if id(current) in seen:
            continue
        seen.add(id(current))
        if current.kind in ("param", "const"):
            found[id(current)] = current
        elif current.node is not None:
            stack.extend(reversed(current.node.inputs))
    return found
