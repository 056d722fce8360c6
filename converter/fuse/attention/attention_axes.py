"""The parts that axes play in attention.

Logical axes are the axes of the softmax, split where a product has several axes in place of one.
They are numbered, and further axes of the operands get higher numbers. An axis of queries and keys
is a batch or head axis. One of queries only is a position, or a group of heads that share their
keys. The axis of the softmax is the key position. An axis that only queries and keys have is the
width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, count

import numpy as np

from converter.fuse.magnitudes import is_moderate
from converter.fuse.match import MatchContext
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, Group, View, as_group
from converter.ir.dims import Dim
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class AttentionOperand:
    """The queries, keys or values of attention, with their logical axes.

    ``axes`` maps the number of each logical axis to an axis of the value, or a part of one. Axes of
    size one are omitted.
    """

    value: Value
    axes: dict[int, Factor]

    def view(self, base: Value, rank: int) -> View:
        """Return a view of ``base`` along ``rank`` logical axes. ``base`` has the shape of the
        value."""
        groups = [as_group([self.axes[i]]) if i in self.axes else () for i in range(rank)]
        return View(base, tuple(groups), (0,) * base.rank)


@dataclass(frozen=True)
class AxisRoles:
    """The operands of attention, and the roles of their logical axes. Axes are given by their
    numbers.

    - `scale`: the product of the numbers by which queries and keys are multiplied before the first
      product.
    - `out`: the axes of the result in its order, except axes of size one.
    - `sizes`: the sizes of all axes by number.
    - `outer`: batch axes other than `heads`.
    - `heads`: the batch axis that is the axis of heads; empty if there is none.
    - `groups`: axes of queries that are heads with the same keys and values.
    - `rows`: query positions.
    - `columns`: key positions.
    - `width`: the width of queries and keys.
    - `value_width`: the width of values.
    """

    query: AttentionOperand
    key: AttentionOperand
    value: AttentionOperand
    scale: float
    out: tuple[int, ...]
    sizes: dict[int, Dim]
    outer: tuple[int, ...]
    heads: tuple[int, ...]
    groups: tuple[int, ...]
    rows: tuple[int, ...]
    columns: int
    width: tuple[int, ...]
    value_width: tuple[int, ...]

    def values(self) -> tuple[Value, Value, Value]:
        """Return the values of queries, keys and values in the graph."""
        return self.query.value, self.key.value, self.value.value

    def result(self) -> tuple[int, ...]:
        """Return the numbers of the result's logical axes in ONNX's order: batch, heads, query
        positions, width. Each of these roles may have several axes or none."""
        return (*self.outer, *self.heads, *self.groups, *self.rows, *self.value_width)


def match_axis_roles(
    node: Node, side: int, weights: View, product: View, context: MatchContext
) -> tuple[AxisRoles, View] | str:
    """Match the roles of the axes in attention.

    Return the operands with the roles of their axes, and a view of the softmax along its logical
    axes (`split_axes`). If the axes are not those of attention, return the reason as a text.

    **Arguments**

    - `node`: the second product.
    - `side`: the index of the operand of `node` that is the weights.
    - `weights`: that operand as a view of the softmax.
    - `product`: the operand of the softmax as a view of the first product.
    - `context`: the number of readers of values.
    """
    first = product.node()
    if not (
        weights.has_no_broadcast_axes(node.inputs[side].shape)
        and product.has_no_broadcast_axes(weights.base.shape)
    ):
        return "the scores are broadcast between the two products"
    logical = split_axes(weights, product)
    if isinstance(logical, str):
        return logical
    weights_side, value_side = ("lhs", "rhs") if side == 0 else ("rhs", "lhs")
    numbers = _AxisNumbers(logical)
    product_roles = numbers.of_product(product, first.params["out"])
    weights_roles = numbers.of_weights(weights, node.params[weights_side])
    (x, x_scale), (y, y_scale) = (_unscaled(v, context) for v in first.inputs)
    left = numbers.operand(x, first.params["lhs"], product_roles)
    right = numbers.operand(y, first.params["rhs"], product_roles)
    value = numbers.operand(node.inputs[1 - side], node.params[value_side], weights_roles)
    labels = zip(node.params["out"], node.out.shape, strict=True)
    out = tuple(
        i for label, d in labels if not dims.is_same_dim(d, 1) for i in weights_roles[label]
    )
    columns = (numbers.of_axis(weights.node().params["axis"]) or [-1])[0]
    for query, key in ((left, right), (right, left)):
        if columns in key.axes and columns not in query.axes and columns in value.axes:
            roles = _assign_roles(numbers, query, key, value, x_scale * y_scale, out, columns)
            return roles if isinstance(roles, str) else (roles, logical)
    return "the softmax does not run over the positions of one operand"


def split_axes(weights: View, product: View) -> View | str:
    """Return a view of the softmax along its logical axes, or the reason why there are none.

    The logical axes are the axes of the softmax. An axis is split where one of the products has
    several axes in its place, such as heads that are groups of queries by key heads.

    **Arguments**

    - `weights`: the operand of the second product, as a view of the softmax.
    - `product`: the operand of the softmax, as a view of the first product.
    """
    groups: list[Group] = []
    shape, columns = weights.base.shape, weights.node().params["axis"]
    for axis, size in enumerate(shape):
        splits = [weights.nested_factors(axis), product.groups[axis]]
        sizes = [[f.size for f in factors] for factors in splits if factors and len(factors) > 1]
        if len(sizes) == 2 and not dims.is_same_shape(*sizes):
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


def _unscaled(value: Value, context: MatchContext) -> tuple[Value, float]:
    """Return an operand before it is multiplied by a number, and the number.

    For a division by a number, its reciprocal is returned. The number must be a moderate constant,
    and the operand must have no other reader. Otherwise return ``value`` and 1.
    """
    node = value.node
    if node is None or not context.single_use(value):
        return value, 1.0
    for index in {ops.mul: (0, 1), ops.div: (1,)}.get(node.op, ()):
        number, other = scalar(node.inputs[index]), node.inputs[1 - index]
        is_moderate_number = number is not None and is_moderate(
            np.asarray(number), allow_zero=False
        )
        if (
            number is not None
            and is_moderate_number
            and dims.is_same_shape(other.shape, value.shape)
        ):
            return other, float(number) if node.op is ops.mul else 1 / float(number)
    return value, 1.0


class _AxisNumbers:
    """The numbers of logical axes.

    The axes of the softmax come first, in their original order. Every further label of a product
    gets the next number.
    """

    def __init__(self, logical: View) -> None:
        self.logical, self.rank = logical, len(logical.groups)
        self.sizes: dict[int, Dim] = {}
        self._fresh = count(self.rank)

    def of_axis(self, axis: int) -> list[int]:
        """Return the numbers of the logical axes into which an axis of the softmax is split,
        slowest first."""
        return [i for i, group in enumerate(self.logical.groups) if group and group[0].axis == axis]

    def of_product(self, product: View, labels: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers of the logical axes for each einsum label of the first product's
        result.

        ``product`` is a view of that result along the axes of the softmax. ``labels`` has the
        einsum's label of each axis.
        """
        view = self.logical.compose(product)
        assert view is not None, (self.logical, product)
        factors = [group[0] if group else None for group in view.groups]
        table = {
            label: [factors.index(factor) for factor in view.nested_factors(axis) or ()]
            for axis, label in enumerate(labels)
        }
        return {label: numbers for label, numbers in table.items() if numbers}

    def of_weights(self, weights: View, labels: Sequence[int]) -> dict[int, list[int]]:
        """Return the numbers of the logical axes for each label of the weights in the second
        product.

        ``weights`` are the weights as a view of the softmax. ``labels`` contains the einsum's label
        of each axis of the weights.
        """
        table: dict[int, list[int]] = {}
        for group, label in zip(weights.groups, labels, strict=True):
            for factor in group:
                assert factor.axis is not None, weights
                digits, factors = (
                    self.of_axis(factor.axis),
                    weights.nested_factors(factor.axis) or [],
                )
                matched = digits if len(factors) == 1 else [digits[factors.index(factor)]]
                table.setdefault(label, []).extend(matched)
        return table

    def operand(
        self, value: Value, labels: Sequence[int], roles: dict[int, list[int]]
    ) -> AttentionOperand:
        """Return an operand of a product with its logical axes.

        ``labels`` contains the einsum's label of each axis of ``value``. ``roles`` has the numbers
        of the labels that are known. A new label gets a number, which is added to ``roles`` in
        place. Axes of size one are omitted.
        """
        axes: dict[int, Factor] = {}
        for axis, (label, size) in enumerate(zip(labels, value.shape, strict=True)):
            if dims.is_same_dim(size, 1):
                continue
            if label not in roles:
                roles[label] = [next(self._fresh)]
                self.sizes[roles[label][0]] = size
            strides = [1, *accumulate(map(self._size, roles[label][:0:-1]), _times)][::-1]
            for number, stride in zip(roles[label], strides, strict=True):
                axes[number] = Factor(axis, stride, self._size(number))
        return AttentionOperand(value, axes)

    def _size(self, number: int) -> Dim:
        """Return the size of a logical axis, and record it in ``sizes``."""
        if number < self.rank:
            self.sizes[number] = self.logical.groups[number][0].size
        return self.sizes[number]


def _times(one: Dim, other: Dim) -> Dim:
    return dims.as_dim(one * other)


def _assign_roles(
    numbers: _AxisNumbers,
    query: AttentionOperand,
    key: AttentionOperand,
    value: AttentionOperand,
    scale: float,
    out: tuple[int, ...],
    columns: int,
) -> AxisRoles | str:
    """Return the roles of all axes for these queries, keys and values, or the reason why they do
    not fit.

    ``scale`` is the number by which queries and keys are multiplied. ``out`` are the axes of the
    result. ``columns`` is the axis of the softmax, the key positions.
    """
    rank, sizes, query_axes = numbers.rank, numbers.sizes, list(query.axes)
    shared = {i: None for i in (*value.axes, *key.axes) if i < rank and i != columns}
    unshared = [i for i in query_axes if i < rank and i not in shared]
    ordered = sorted(shared, key=lambda i: query_axes.index(i) if i in query_axes else -1)
    groups = _find_group_axes(unshared, sizes)
    heads = [i for i in ordered if dims.is_static(sizes[i])][-1:]
    if groups and ordered == query_axes[:1]:
        # The axis is a batch axis, because all heads share their keys.
        heads = []
    roles = AxisRoles(
        query=query,
        key=key,
        value=value,
        scale=scale,
        out=out,
        sizes=sizes,
        outer=tuple(i for i in ordered if i not in heads),
        heads=tuple(heads),
        groups=tuple(groups),
        rows=tuple(i for i in unshared if i not in groups),
        columns=columns,
        width=tuple(i for i in query_axes if i >= rank),
        value_width=tuple(i for i in value.axes if i >= rank),
    )
    return _explain_misfit(roles, rank) or roles


def _find_group_axes(unshared: list[int], sizes: dict[int, Dim]) -> list[int]:
    """Return the axes of queries that are heads with the same keys and values.

    ``unshared`` are the axes of queries that neither keys nor values have. The axes with symbolic
    sizes, or else the largest axis, are positions. The others are returned.
    """
    dynamic = [i for i in unshared if not dims.is_static(sizes[i])]
    rows = dynamic or sorted(unshared, key=lambda i: int(sizes[i]))[-1:]
    return [i for i in unshared if i not in rows]


def _explain_misfit(roles: AxisRoles, rank: int) -> str:
    """Return the reason why the axes are not those of attention, or "" if they are.

    Axes from ``rank`` on are not axes of the softmax.
    """
    if sorted(roles.width) != sorted(i for i in roles.key.axes if i >= rank):
        return "queries and keys do not share their width"
    if any(dims.is_same_dim(d, 0) for d in roles.sizes.values()):
        return "something is empty, which the runtime's operator does not take"
    if not roles.rows and any(i not in roles.key.axes for i in (*roles.outer, *roles.heads)):
        # Deformable attention: the "keys" are the weights of a linear layer, and an operator
        # would need a copy of them for each query.
        return "the keys are the same for queries that have different values"
    if sorted(roles.out) != sorted(roles.result()):
        return "the second product does not sum over the positions alone"
    return ""
