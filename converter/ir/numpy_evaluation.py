"""Computing values that depend on constants and parameters alone.

Constants are folded while converting; what depends on parameters is a *weight program*, evaluated
when the file is saved, tensor by tensor. Layout and plain arithmetic run in numpy, which needs no
compilation; anything else runs as the JAX operation it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from converter.ir import Node, Value, dims, ops
from converter.ir.evaluation import precision, run_node, size_in_bytes
from converter.ir.origins import steps

# Results above this size stay in the graph unless they are no larger than what they come from.
CEILING = 1 << 20

SPARE = 16 * CEILING
"""What a step on the way may be larger than all that it comes from: a mask of 1 MiB is made of
numbers that take more."""

Read = Callable[[Value], Any]


def compute(value: Value, read: Read, memo: dict[int, Any] | None = None) -> Any:
    """The array behind ``value``; ``read`` gives parameters and constants."""
    memo = {} if memo is None else memo
    for node in steps(value, memo):
        args = [memo[id(v)] if v.node is not None else read(v) for v in node.inputs]
        memo.update((id(v), r) for v, r in zip(node.outputs, _apply(node, args), strict=True))
    return read(value) if value.node is None else memo[id(value)]


def _apply(node: Node, args: list[Any]) -> list[Any]:
    twin, kinds = node.op.numpy, set("f" if node.op.divides else "biuf")
    if twin is None or not _kinds(node) <= kinds:
        with precision([node]):
            return [np.asarray(r) for r in run_node(node, args, {})]
    with np.errstate(all="ignore"):
        result = np.asarray(twin(*map(np.asarray, args), **node.params))
    return [result.astype(node.out.dtype, copy=False)]


def _kinds(node: Node) -> set[str]:
    """The kinds of dtypes that a node has to do with."""
    return {v.dtype.kind for v in (*node.inputs, *node.outputs)}


class Bounded:
    """What can be computed of known values without steps that are much larger than those."""

    def __init__(self) -> None:
        self._leaves: dict[int, dict[int, float]] = {}  # id(value) -> the sizes of what it is of

    def admits(self, node: Node) -> bool:
        """Whether a node is one of those; asked of every node after those that it reads."""
        leaves: dict[int, float] = {}
        for value in node.inputs:
            leaves |= self._leaves.get(id(value)) or {id(value): size_in_bytes(value)}
        self._leaves.update((id(value), leaves) for value in node.outputs)
        room = sum(leaves.values()) + SPARE
        return is_computable(node) and all(size_in_bytes(v) <= room for v in node.outputs)


def is_computable(node: Node) -> bool:
    """Pure, without bodies, and of known shapes; not itself the value of a named dimension."""
    plain = not node.bodies and node.op is not ops.dim_as_value and not node.op.calls
    return plain and all(dims.all_static(v.shape) for v in (*node.inputs, *node.outputs))
