"""Which axis plays which part.

The softmax's axes are numbered, and further ones get numbers behind them. An axis of queries and
keys is a batch or head axis, one of queries alone a position (or a group of heads that share their
keys), the softmax's own the key position; what only queries and keys have is the width.
"""

from dataclasses import dataclass
from itertools import count

import numpy as np

from converter.fuse.magnitudes import is_moderate
from converter.fuse.match import Uses
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import View
from converter.ir.dims import Dim
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class AttentionOperand:
    """A value, and where it has an axis of a number; none are of size one."""

    value: Value
    axes: dict[int, int]


@dataclass(frozen=True)
class Parts:
    """Queries, keys and values, and what their axes are."""

    query: AttentionOperand
    key: AttentionOperand
    value: AttentionOperand
    scale: float  # of queries and keys, before the product
    out: tuple[int, ...]  # of the result, without axes of size one
    sizes: dict[int, Dim]
    outer: tuple[int, ...]  # batch axes
    heads: tuple[int, ...]  # the batch axis that counts as heads
    groups: tuple[int, ...]  # query axes that are heads sharing keys and values
    rows: tuple[int, ...]  # query positions
    columns: int  # key positions
    width: tuple[int, ...]
    value_width: tuple[int, ...]

    def values(self) -> tuple[Value, Value, Value]:
        return self.query.value, self.key.value, self.value.value

    def result(self) -> tuple[int, ...]:
        """The axes of what attention gives, in ONNX's order."""
        return (*self.outer, *self.heads, *self.groups, *self.rows, *self.value_width)


def axis_parts(node: Node, side: int, weights: View, product: View, uses: Uses) -> Parts | str:
    """``node`` multiplies values with the weights on its ``side``, ``product`` gave the scores."""
    columns, first = weights.node().params["axis"], product.node()
    if not (weights.fills(node.inputs[side].shape) and product.fills(weights.base.shape)):
        return "the scores are broadcast between the two products"
    own, other = ("lhs", "rhs") if side == 0 else ("rhs", "lhs")
    numbers = _Numbers(weights.base.rank)
    upper = {first.params["out"][a]: i for i, a in enumerate(product.axes) if a is not None}
    pairs = zip(node.params[own], weights.axes, strict=True)
    lower = {label: i for label, i in pairs if i is not None}
    (x, x_scale), (y, y_scale) = (_unscaled(v, uses) for v in first.inputs)
    left = numbers.operand(x, first.params["lhs"], upper)
    right = numbers.operand(y, first.params["rhs"], upper)
    value = numbers.operand(node.inputs[1 - side], node.params[other], lower)
    labels = zip(node.params["out"], node.out.shape, strict=True)
    out = tuple(lower[label] for label, d in labels if not dims.same(d, 1))
    for query, key in ((left, right), (right, left)):
        if columns in key.axes and columns not in query.axes and columns in value.axes:
            return _roles(numbers, query, key, value, x_scale * y_scale, out, columns)
    return "the softmax does not run over the positions of one operand"


def _unscaled(value: Value, uses: Uses) -> tuple[Value, float]:
    """Queries are often scaled before the product; the number joins the others."""
    node = value.node
    if node is None or not uses.single_use(value):
        return value, 1.0
    for index in {ops.mul: (0, 1), ops.div: (1,)}.get(node.op, ()):
        number, other = scalar(node.inputs[index]), node.inputs[1 - index]
        moves = number is not None and is_moderate(np.asarray(number), allow_zero=False)
        if number is not None and moves and dims.same_shape(other.shape, value.shape):
            return other, float(number) if node.op is ops.mul else 1 / float(number)
    return value, 1.0


class _Numbers:
    """Numbers for axes: the softmax's own first, then one for each further label."""

    def __init__(self, rank: int) -> None:
        self.rank, self._fresh = rank, count(rank)
        self.sizes: dict[int, Dim] = {}

    def operand(self, value: Value, labels: list[int], roles: dict[int, int]) -> AttentionOperand:
        axes: dict[int, int] = {}
        for axis, (label, size) in enumerate(zip(labels, value.shape, strict=True)):
            if dims.same(size, 1):
                continue
            number = roles[label] = roles[label] if label in roles else next(self._fresh)
            self.sizes[number], axes[number] = size, axis
        return AttentionOperand(value, axes)


def _roles(
    numbers: _Numbers,
    query: AttentionOperand,
    key: AttentionOperand,
    value: AttentionOperand,
    scale: float,
    out: tuple[int, ...],
    columns: int,
) -> Parts | str:
    rank, sizes, own = numbers.rank, numbers.sizes, list(query.axes)
    shared = {i: None for i in (*value.axes, *key.axes) if i < rank and i != columns}
    alone = [i for i in own if i < rank and i not in shared]
    ordered = sorted(shared, key=lambda i: own.index(i) if i in own else -1)
    groups = _groups(alone, sizes)
    heads = [i for i in ordered if dims.is_static(sizes[i])][-1:]
    if groups and ordered == own[:1]:
        heads = []  # a batch in which all heads share their keys
    parts = Parts(
        query=query,
        key=key,
        value=value,
        scale=scale,
        out=out,
        sizes=sizes,
        outer=tuple(i for i in ordered if i not in heads),
        heads=tuple(heads),
        groups=tuple(groups),
        rows=tuple(i for i in alone if i not in groups),
        columns=columns,
        width=tuple(i for i in own if i >= rank),
        value_width=tuple(i for i in value.axes if i >= rank),
    )
    return _misfit(parts, rank) or parts


def _groups(alone: list[int], sizes: dict[int, Dim]) -> list[int]:
    """All but the positions, which are what has no fixed size, or else the largest axis."""
    dynamic = [i for i in alone if not dims.is_static(sizes[i])]
    rows = dynamic or sorted(alone, key=lambda i: int(sizes[i]))[-1:]
    return [i for i in alone if i not in rows]


def _misfit(parts: Parts, rank: int) -> str:
    """Why the parts are not those of attention, if they are not."""
    if sorted(parts.width) != sorted(i for i in parts.key.axes if i >= rank):
        return "queries and keys do not share their width"
    if any(dims.same(d, 0) for d in parts.sizes.values()):
        return "something is empty, which the runtime's operator does not take"
    if sorted(parts.out) != sorted(parts.result()):
        return "the second product does not sum over the positions alone"
    return ""
