"""Which axis plays which part.

The softmax's axes are numbered, and further ones get numbers behind them. An axis of queries and
keys is a batch or head axis, one of queries alone a position (or a group of heads that share their
keys), the softmax's own the key position; what only queries and keys have is the width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, count

import numpy as np

from converter.fuse.magnitudes import is_moderate
from converter.fuse.match import Uses
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, Group, View, as_group
from converter.ir.dims import Dim
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class AttentionOperand:
    """A value and its logical axes by number; none of them has size one."""

    value: Value
    axes: dict[int, Factor]

    def view(self, base: Value, rank: int) -> View:
        """Return a view of ``base``, which has the shape of the value, along the logical axes."""
        groups = [as_group([self.axes[i]]) if i in self.axes else () for i in range(rank)]
        return View(base, tuple(groups), (0,) * base.rank)


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


def axis_parts(
    node: Node, side: int, weights: View, product: View, uses: Uses
) -> tuple[Parts, View] | str:
    """Match the axes of attention.

    Arguments:
        node: the second product, whose operand ``side`` is the weights.
        weights: the softmax along the axes of that operand.
        product: the first product along the axes of the softmax.

    Returns the parts, and the logical axes as a view of the axes of the softmax; or the reason why
    there is no attention.
    """
    first = product.node()
    if not (weights.fills(node.inputs[side].shape) and product.fills(weights.base.shape)):
        return "the scores are broadcast between the two products"
    logical = split_axes(weights, product)
    if isinstance(logical, str):
        return logical
    own, other = ("lhs", "rhs") if side == 0 else ("rhs", "lhs")
    numbers = _Numbers(logical)
    upper = numbers.of_product(product, first.params["out"])
    lower = numbers.of_weights(weights, node.params[own])
    (x, x_scale), (y, y_scale) = (_unscaled(v, uses) for v in first.inputs)
    left = numbers.operand(x, first.params["lhs"], upper)
    right = numbers.operand(y, first.params["rhs"], upper)
    value = numbers.operand(node.inputs[1 - side], node.params[other], lower)
    labels = zip(node.params["out"], node.out.shape, strict=True)
    out = tuple(i for label, d in labels if not dims.same(d, 1) for i in lower[label])
    columns = (numbers.of_axis(weights.node().params["axis"]) or [-1])[0]
    for query, key in ((left, right), (right, left)):
        if columns in key.axes and columns not in query.axes and columns in value.axes:
            parts = _roles(numbers, query, key, value, x_scale * y_scale, out, columns)
            return parts if isinstance(parts, str) else (parts, logical)
    return "the softmax does not run over the positions of one operand"


def split_axes(weights: View, product: View) -> View | str:
    """Return the logical axes, as a view of the axes of the softmax; or the reason why there are
    none.

    An axis is split where one of the products has several axes in its place, such as heads that
    are groups of queries by key heads.
    """
    groups: list[Group] = []
    shape, columns = weights.base.shape, weights.node().params["axis"]
    for axis, size in enumerate(shape):
        splits = [weights.nested(axis), product.groups[axis]]
        sizes = [[f.size for f in factors] for factors in splits if factors and len(factors) > 1]
        if len(sizes) == 2 and not dims.same_shape(*sizes):
            return "the two products split an axis of the softmax in two ways"
        if sizes and axis == columns:
            return "the axis of the softmax is split in a product"
        stride: dims.Dim = 1
        digits: list[Group] = []
        for digit in (sizes[0] if sizes else [size])[::-1]:
            digits.append(as_group([Factor(axis, stride, digit)]))
            stride = dims.as_dim(stride * digit)
        groups += digits[::-1]
    return View(weights.base, tuple(groups), (0,) * len(shape))


def _unscaled(value: Value, uses: Uses) -> tuple[Value, float]:
    """Queries are often scaled before the product; the number joins the others."""
    node = value.node
    if node is None or not uses.single_use(value):
        return value, 1.0
    for index in {ops.mul: (0, 1), ops.div: (1,)}.get(node.op, ()):
        number, other = scalar(node.inputs[index]), node.inputs[1 - index]
        moves = number is not None and is_moderate(np.asarray(number), nothing=False)
        if number is not None and moves and dims.same_shape(other.shape, value.shape):
            return other, float(number) if node.op is ops.mul else 1 / float(number)
    return value, 1.0


class _Numbers:
    """Numbers of logical axes: first those of the softmax, then one for each further label."""

    def __init__(self, logical: View) -> None:
        self.logical, self.rank = logical, len(logical.groups)
        self.sizes: dict[int, Dim] = {}
        self._fresh = count(self.rank)

    def of_axis(self, axis: int) -> list[int]:
        """Return the numbers of the digits of an axis of the softmax, the slowest first."""
        return [i for i, group in enumerate(self.logical.groups) if group and group[0].axis == axis]

    def of_product(self, product: View, labels: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers that each label of the first product has."""
        view = self.logical.of(product)
        assert view is not None, (self.logical, product)
        factors = [group[0] if group else None for group in view.groups]
        table = {
            label: [factors.index(factor) for factor in view.nested(axis) or ()]
            for axis, label in enumerate(labels)
        }
        return {label: numbers for label, numbers in table.items() if numbers}

    def of_weights(self, weights: View, labels: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers that each label of the weights has in the second product."""
        table: dict[int, list[int]] = {}
        for group, label in zip(weights.groups, labels, strict=True):
            for factor in group:
                assert factor.axis is not None, weights
                digits, factors = self.of_axis(factor.axis), weights.nested(factor.axis) or []
                chosen = digits if len(factors) == 1 else [digits[factors.index(factor)]]
                table.setdefault(label, []).extend(chosen)
        return table

    def operand(
        self, value: Value, labels: Sequence[int], roles: dict[int, list[int]]
    ) -> AttentionOperand:
        """Return an operand of a product along the logical axes; new labels get numbers."""
        axes: dict[int, Factor] = {}
        for axis, (label, size) in enumerate(zip(labels, value.shape, strict=True)):
            if dims.same(size, 1):
                continue
            if label not in roles:
                roles[label] = [next(self._fresh)]
                self.sizes[roles[label][0]] = size
            strides = [1, *accumulate(map(self._size, roles[label][:0:-1]), _times)][::-1]
            for number, stride in zip(roles[label], strides, strict=True):
                axes[number] = Factor(axis, stride, self._size(number))
        return AttentionOperand(value, axes)

    def _size(self, number: int) -> Dim:
        if number < self.rank:
            self.sizes[number] = self.logical.groups[number][0].size
        return self.sizes[number]


def _times(one: Dim, other: Dim) -> Dim:
    return dims.as_dim(one * other)


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
