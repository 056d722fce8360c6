"""Views: values seen through operations that only move elements.

Element (i, j, …) of a *view* is the element of its base at

    starts + sum of stride * digit

The digits are those of the indices i, j, …. Each axis of a view is a sequence of *factors*, and the
digit of the last factor changes fastest. A factor runs along one axis of the base, or along no
axis, which means that elements are repeated. An axis without factors repeats a single entry,
whatever its size is.

Example: the transpose of a value [2, 3] is a view of shape [3, 2] with the groups ``(Factor(1, 1,
3),)`` and ``(Factor(0, 1, 2),)`` and with starts (0, 0). Reshaped to [6], it has one group of these
two factors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from converter.ir import dims
from converter.ir.dims import Dim, Shape
from converter.ir.nodes import Node, Value
from converter.ir.op import Op


class Factor(NamedTuple):
    """Part of an axis of a view: ``size`` entries, each ``stride`` further along ``axis`` of the
    base.

    If ``axis`` is None, the same element is repeated ``size`` times.
    """

    axis: int | None
    stride: Dim
    size: Dim


Group = tuple[Factor, ...]
"""The factors of one axis of a view, the slowest first."""


class View(NamedTuple):
    """The value ``base``, seen through a rearrangement of its elements, such as a transposition or
    a reshape.

    ``groups`` contains the factors of each axis of the view. ``starts`` is the position in the base
    of the view's first element.
    """

    base: Value
    groups: tuple[Group, ...]
    starts: tuple[Dim, ...]

    def op(self) -> Op | None:
        """Return the operation of the node that computes the base, or None if no node does."""
        return self.base.node.op if self.base.node is not None else None

    def node(self) -> Node:
        """Return the node that computes the base, which must not be an input, a parameter or a
        constant."""
        assert self.base.node is not None
        return self.base.node

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Axis of the base for each axis of the view, or None.

        The axis may be cut, reversed or have a stride. None stands for an axis along which nothing
        varies, also one of size one, and for an axis of several factors.
        """
        return tuple([g[0].axis if len(g) == 1 else None for g in self.groups])

    @property
    def has_full_axes(self) -> bool:
        """True if every axis of the view is a full axis of the base, or repeats one element.

        The axes may have any order. An axis of the view may not be cut, reversed, split or merged.
        An axis of the base that is missing in the view is read at position 0.
        """
        shape = self.base.shape
        for group in self.groups:
            for axis, stride, size in group:
                if len(group) > 1 or stride != 1 or not dims.is_same_dim(size, shape[axis or 0]):
                    return False
        return all([dims.is_same_dim(start, 0) for start in self.starts])

    def varies_only_along(self, along: Sequence[int]) -> bool:
        """Return True if the view's elements vary along no other axes of the view than ``along``.

        They need not vary along all of these.
        """
        return not any(group for i, group in enumerate(self.groups) if i not in along)

    def has_nested_factors(self) -> bool:
        """Return True if the entries along each axis of the base nest without gaps
        (`nested_factors`).

        ``emit_view`` needs that. It also fails if a slice would need a symbolic stride, which is
        not checked here.
        """
        return all(self.nested_factors(axis) is not None for axis in range(self.base.rank))

    def factors(self, axis: int) -> list[Factor]:
        """Return the factors of the view that go along this axis of the base, in the order of the
        view."""
        return [f for group in self.groups for f in group if f.axis == axis]

    def nested_factors(self, axis: int) -> list[Factor] | None:
        """Return the factors along an axis of the base, the slowest first. The list is empty if
        there are none.

        Return None if they leave gaps or overlap: each stride must be the product of stride and
        size of the next faster factor. The fastest factor may have any stride.
        """
        factors = self.factors(axis)
        if len(factors) < 2:
            return factors
        ends = [f.stride * f.size for f in factors]
        fastest = [f for f in factors if not any(dims.is_same_dim(f.stride, end) for end in ends)]
        ordered = fastest[:1]
        while ordered and len(ordered) < len(factors):
            end = ordered[0].stride * ordered[0].size
            successors = [f for f in factors if dims.is_same_dim(f.stride, end)]
            if len(successors) != 1:
                return None
            ordered.insert(0, successors[0])
        return ordered if len(ordered) == len(factors) else None

    def bounds_along(self, axis: int) -> tuple[Dim, Dim]:
        """Return the lowest and the highest position along an axis of the base that the view
        reads."""
        low = high = self.starts[axis]
        for _, stride, size in self.factors(axis):
            end = stride * (size - 1)
            low, high = (low, high + end) if is_forward(stride) else (low + end, high)
        return dims.as_dim(low), dims.as_dim(high)

    def has_all_base_axes(self) -> bool:
        """Return True if each axis of the base that is longer than one has its own axis of the
        view.

        That axis of the view may be cut or reversed.
        """
        real = {a for a, d in enumerate(self.base.shape) if not dims.is_same_dim(d, 1)}
        return real <= set(self.axes)

    def has_no_broadcast_axes(self, shape: Shape) -> bool:
        """Return True if no axis of a view of this shape only repeats one element.

        The factors of each axis must account for its full size. An axis along which nothing varies
        has no factors. An axis that repeats several elements, such as that of a ``tile``, is
        allowed.
        """
        sizes = (dims.size_product([f.size for f in group]) for group in self.groups)
        return all(dims.is_same_dim(size, d) for size, d in zip(sizes, shape, strict=True))

    def unbroadcast_shape(self, shape: Shape) -> Shape:
        """Return ``shape``, the shape of the view, with size one for the axes along which nothing
        varies."""
        return tuple(d if group else 1 for group, d in zip(self.groups, shape, strict=True))

    def select_axes(self, axes: Iterable[int | None]) -> View:
        """Return the view with the selected axes in this order.

        Axes that are left out are read at their first entry. None adds an axis along which nothing
        varies.
        """
        return self._replace(groups=tuple(() if a is None else self.groups[a] for a in axes))

    def merge_axes(self, parts: Sequence[Sequence[int]], sizes: Mapping[int, Dim]) -> View:
        """Return the view in which the axes of each part are merged into one axis.

        ``parts`` are lists of axes of the view, the slowest first. Axes that are in no part are
        left out. ``sizes`` contains the size of each axis along which nothing varies.
        """
        parts_factors = [
            [self.groups[a] or (Factor(None, 0, sizes[a]),) for a in part] for part in parts
        ]
        return self._replace(groups=tuple(as_group(chain(*groups)) for groups in parts_factors))

    def replace_axis(self, axis: int, base_axis: int) -> View:
        """Return the view with its axis ``axis`` replaced by the full axis ``base_axis`` of the
        base. The position of the first element is not changed."""
        groups = list(self.groups)
        groups[axis] = as_group([Factor(base_axis, 1, self.base.shape[base_axis])])
        return self._replace(groups=tuple(groups))

    def slice_axis(self, axis: int, start: Dim, size: Dim, stride: int = 1) -> View | None:
        """Return the view with an axis reduced to ``size`` entries from ``start`` on, ``stride``
        apart.

        Return None if the entries are not regular steps along axes of the base.
        """
        digits, starts, groups = _Digits(self.groups[axis]), list(self.starts), list(self.groups)
        steps = (
            digits.split_steps(Factor(0, stride, size)) if digits.start_at(start, starts) else None
        )
        if steps is None or not digits.has_no_carry():
            return None
        groups[axis] = as_group(steps)
        return View(self.base, tuple(groups), tuple(starts))

    def compose(self, inner: View) -> View | None:
        """Return this view as a view of the base of ``inner``.

        ``inner`` shows the base of this view as a view of another value:
        ``transposed_again.compose(transposed)`` is a view of the value before both transpositions.
        Return None if the elements are not regular steps along axes of that base.
        """
        single = all(len(group) < 2 for group in inner.groups)
        return _rename_axes(self, inner) if single else _compose_digits(self, inner)

    def rebase(self, base: Value, axes: Iterable[int | None]) -> View:
        """Return the same elements as a view of another base.

        ``axes`` contains, for each axis of the old base, the axis of the new base, or None if
        elements are repeated along it. The elements of the old base must be those of the new base
        along these axes.
        """
        view = self.compose(view_of(base, axes))
        assert view is not None, (self, base)
        return view

    def operand(self, index: int) -> View:
        """Return the same positions as a view of an operand of the node that computes the base.

        The node is elementwise and may broadcast the operand as numpy does. ``index`` is the number
        of the operand.
        """
        value, shape = self.node().inputs[index], self.base.shape
        if dims.is_same_shape(value.shape, shape):
            return View(value, self.groups, self.starts)
        if not value.shape:
            return View(value, ((),) * len(self.groups), ())
        added_axes = len(shape) - value.rank
        pairs = zip(value.shape, shape[added_axes:], strict=True)
        axes = [a if dims.is_same_dim(*pair) else None for a, pair in enumerate(pairs)]
        return self.rebase(value, (*(None,) * added_axes, *axes))


def view_of(base: Value, axes: Iterable[int | None] | None = None) -> View:
    """Return the view of a value along the given axes, by default along all of its axes in order.

    None in ``axes`` adds an axis along which nothing varies. An axis of size one has no factor in
    the view.
    """
    shape = base.shape
    selected = range(len(shape)) if axes is None else axes
    groups = [
        () if a is None or dims.is_one(shape[a]) else (Factor(a, 1, shape[a]),) for a in selected
    ]
    return View(base, tuple(groups), (0,) * len(shape))


def as_group(factors: Iterable[Factor]) -> Group:
    """Return the group of these factors, the slowest first.

    Neighbours with contiguous entries are merged, and factors of size one are dropped. The group is
    empty if no factor goes along an axis of the base.
    """
    merged: list[Factor] = []
    for f in factors:
        if (
            merged
            and merged[-1].axis == f.axis
            and dims.is_same_dim(merged[-1].stride, f.stride * f.size)
        ):
            merged[-1] = Factor(f.axis, f.stride, dims.as_dim(merged[-1].size * f.size))
        elif not dims.is_one(f.size):
            merged.append(f)
    return tuple(merged) if any(f.axis is not None for f in merged) else ()


# ------------------------------------------------------------------------------------ composition


def _rename_axes(outer: View, inner: View) -> View:
    """Return a view of a view as a view of the inner base.

    The base of ``outer`` has the elements of ``inner``. Each axis of ``inner`` must have at most
    one factor.
    """
    starts = list(inner.starts)
    for start, group in zip(outer.starts, inner.groups, strict=True):
        if group and not dims.is_same_dim(start, 0):
            axis, stride, _ = group[0]
            starts[axis or 0] = dims.as_dim(starts[axis or 0] + stride * start)

    groups = tuple([_rename_group(group, inner.groups) if group else () for group in outer.groups])
    return View(inner.base, groups, tuple(starts))


def _rename_group(group: Group, inner: tuple[Group, ...]) -> Group:
    """Return the factors of one axis of the outer view as factors along the base of the inner view.

    ``inner`` has at most one factor for each axis.
    """
    if len(group) > 1:
        return as_group([part for factor in group for part in _rename_factor(factor, inner)])
    renamed = _rename_factor(group[0], inner)
    return () if renamed[0].axis is None else renamed


def _rename_factor(factor: Factor, inner: tuple[Group, ...]) -> Group:
    """Return a factor of the outer view as factors along the base of the inner view.

    A factor along an axis without factors becomes one that repeats elements.

    Arguments:
        factor: a factor along an axis of the inner view, or along no axis.
        inner: the factors of each axis of the inner view, at most one for each.
    """
    axis, stride, size = factor
    base_factors = () if axis is None else inner[axis]
    if not base_factors:
        return (Factor(None, 0, size),)
    base_axis, base_stride, _ = base_factors[0]
    if base_stride != 1:
        return (Factor(base_axis, dims.as_dim(base_stride * stride), size),)
    return (factor,) if base_axis == axis else (Factor(base_axis, stride, size),)


def _compose_digits(outer: View, inner: View) -> View | None:
    """Return a view of a view as a view of the inner base, through the digits of their axes.

    The base of ``outer`` has the elements of ``inner``. Return None if the elements are not regular
    steps along axes of the base of ``inner``.
    """
    axes = [_Digits(group) for group in inner.groups]
    starts = list(inner.starts)
    for axis, index in zip(axes, outer.starts, strict=True):
        if not axis.start_at(index, starts):
            return None
    groups: list[Group] = []
    for outer_group in outer.groups:
        factors: list[Factor] = []
        for factor in outer_group:
            steps = [factor] if factor.axis is None else axes[factor.axis].split_steps(factor)
            if steps is None:
                return None
            factors += steps
        groups.append(as_group(factors))
    is_exact = all(axis.has_no_carry() for axis in axes)
    return View(inner.base, tuple(groups), tuple(starts)) if is_exact else None


class _Digits:
    """State of a composition of two views along one axis of the inner view.

    The outer view is a view of the inner one. ``group`` contains the factors of the axis; the index
    along the axis has a digit for each factor. ``low`` and ``high`` are the least and the largest
    digit that the outer view reaches in each factor.
    """

    def __init__(self, group: Group) -> None:
        self.group = group or (Factor(None, 0, 1),)
        self.low: list[Dim] = [0] * len(self.group)
        self.high: list[Dim] = [0] * len(self.group)

    def start_at(self, index: Dim, starts: list[Dim]) -> bool:
        """Split the index of the axis at which the outer view starts into digits.

        The distances of these digits are added to ``starts``, the position of the view's first
        element in the base, in place. Return False if the index cannot be split, because sizes are
        symbolic.
        """
        for i in range(len(self.group) - 1, 0, -1):
            size = self.group[i].size
            if dims.all_static((index, size)):
                index, self.low[i] = divmod(index, size)
            elif not dims.is_same_dim(index, 0):
                index = dims.divide_exactly(index, size)
                if index is None:
                    return False
        self.low[0] = index
        self.high = list(self.low)
        for (axis, stride, _), digit in zip(self.group, self.low, strict=True):
            if axis is not None:
                starts[axis] = dims.as_dim(starts[axis] + stride * digit)
        return True

    def split_steps(self, factor: Factor) -> list[Factor] | None:
        """Return a factor of the outer view as factors along the base of the inner view.

        ``low`` and ``high`` are extended to the digits that it reaches. Return None if its entries
        are not regular steps along the base.
        """
        _, stride, size = factor
        sign = 1 if is_forward(stride) else -1
        stride, inner_steps = dims.as_dim(stride * sign), list[Factor]()
        for i in range(len(self.group) - 1, 0, -1):
            digit_count = self.group[i].size
            coarser_stride = dims.divide_exactly(stride, digit_count)
            if coarser_stride is not None:
                stride = coarser_stride
                continue
            if dims.is_at_least(digit_count - 1 - stride * (size - 1), 0):
                return [self._step(i, sign * stride, size), *inner_steps]
            inner_size = dims.divide_exactly(digit_count, stride)
            outer_size = None if inner_size is None else dims.divide_exactly(size, inner_size)
            if inner_size is None or outer_size is None:
                return None
            inner_steps.insert(0, self._step(i, sign * stride, inner_size))
            stride, size = 1, outer_size
        return [self._step(0, sign * stride, size), *inner_steps]

    def _step(self, i: int, stride: Dim, size: Dim) -> Factor:
        """Return the factor of ``size`` steps of ``stride`` in digit ``i``, and extend ``low`` or
        ``high`` to its end."""
        end = self.high if is_forward(stride) else self.low
        end[i] = dims.as_dim(end[i] + stride * (size - 1))
        axis, base_stride, _ = self.group[i]
        return Factor(axis, 0 if axis is None else dims.as_dim(stride * base_stride), size)

    def has_no_carry(self) -> bool:
        """Return True if every digit, except the slowest one, is always within the size of its
        factor.

        Otherwise a step would carry into the next digit, which a view cannot express.
        """
        parts = list(zip(self.group, self.low, self.high, strict=True))[1:]
        return all(
            dims.is_at_least(low, 0) and dims.is_at_least(digit.size - 1 - high, 0)
            for digit, low, high in parts
        )


def is_forward(stride: Dim) -> bool:
    """Return True if a stride is known not to be negative."""
    return dims.is_at_least(stride, 0)
