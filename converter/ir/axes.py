"""One algebra of axes: values as views of others, through all that only moves elements.

Element (i, j, …) of a *view* is that of its base at

    starts + sum of stride * digit

where the digits are those of i, j, …: each axis of a view is a row of *factors*, of which the last
runs fastest, and a factor goes along one axis of the base, or along none, where elements are
repeated. An axis along which nothing varies has no factors, however long it is.
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
    """``size`` steps of ``stride`` along an axis of the base, or the same element so often."""

    axis: int | None
    stride: Dim
    size: Dim


Group = tuple[Factor, ...]
"""The digits of an axis of a view."""


class View(NamedTuple):
    """``base`` along other axes, the factors of which are ``groups``, from ``starts`` on."""

    base: Value
    groups: tuple[Group, ...]
    starts: tuple[Dim, ...]

    def op(self) -> Op | None:
        return self.base.node.op if self.base.node is not None else None

    def node(self) -> Node:
        assert self.base.node is not None
        return self.base.node

    @property
    def axes(self) -> tuple[int | None, ...]:
        """Axis of the base along which each axis goes, if there is one."""
        return tuple([g[0].axis if len(g) == 1 else None for g in self.groups])

    @property
    def is_whole(self) -> bool:
        """Whether each axis is a whole axis of the base, or none."""
        shape = self.base.shape
        for group in self.groups:
            for axis, stride, size in group:
                if len(group) > 1 or stride != 1 or not dims.same(size, shape[axis or 0]):
                    return False
        return all([dims.same(start, 0) for start in self.starts])

    def covers(self, along: Sequence[int]) -> bool:
        """Whether the value varies along the given axes only."""
        return not any(group for i, group in enumerate(self.groups) if i not in along)

    def is_writable(self) -> bool:
        """Whether ``write`` can write it: without gaps in what is seen of an axis."""
        return all(self.nested(axis) is not None for axis in range(self.base.rank))

    def factors(self, axis: int) -> list[Factor]:
        return [f for group in self.groups for f in group if f.axis == axis]

    def nested(self, axis: int) -> list[Factor] | None:
        """The factors along an axis of the base, the slowest first, if none leaves a gap."""
        factors = self.factors(axis)
        if len(factors) < 2:
            return factors
        ends = [f.stride * f.size for f in factors]
        fastest = [f for f in factors if not any(dims.same(f.stride, end) for end in ends)]
        chain = fastest[:1]
        while chain and len(chain) < len(factors):
            end = chain[0].stride * chain[0].size
            after = [f for f in factors if dims.same(f.stride, end)]
            if len(after) != 1:
                return None
            chain.insert(0, after[0])
        return chain if len(chain) == len(factors) else None

    def reach(self, axis: int) -> tuple[Dim, Dim]:
        """The first and the last entry of an axis of the base that are seen."""
        low = high = self.starts[axis]
        for _, stride, size in self.factors(axis):
            end = stride * (size - 1)
            low, high = (low, high + end) if is_forward(stride) else (low + end, high)
        return dims.as_dim(low), dims.as_dim(high)

    def complete(self) -> bool:
        """Whether every axis of the base (longer than one) is one of the view."""
        real = {a for a, d in enumerate(self.base.shape) if not dims.same(d, 1)}
        return real <= set(self.axes)

    def fills(self, shape: Shape) -> bool:
        """Whether the value is not repeated along any axis of that shape."""
        sizes = (dims.size_product([f.size for f in group]) for group in self.groups)
        return all(dims.same(size, d) for size, d in zip(sizes, shape, strict=True))

    def bare(self, shape: Shape) -> Shape:
        """Shape with one entry along the axes along which nothing varies."""
        return tuple(d if group else 1 for group, d in zip(self.groups, shape, strict=True))

    def take(self, axes: Iterable[int | None]) -> View:
        """The same with its axes in another order, others left out or put in."""
        return self._replace(groups=tuple(() if a is None else self.groups[a] for a in axes))

    def merge(self, parts: Sequence[Sequence[int]], sizes: Mapping[int, Dim]) -> View:
        """Each of the parts as one axis; ``sizes`` are those of the axes in them."""
        once = [[self.groups[a] or (Factor(None, 0, sizes[a]),) for a in part] for part in parts]
        return self._replace(groups=tuple(as_group(chain(*groups)) for groups in once))

    def put(self, axis: int, own: int) -> View:
        """View with one of its axes along a whole axis of the base."""
        groups = list(self.groups)
        groups[axis] = as_group([Factor(own, 1, self.base.shape[own])])
        return self._replace(groups=tuple(groups))

    def cut(self, axis: int, start: Dim, size: Dim, stride: int = 1) -> View | None:
        """Only ``size`` entries of an axis, from ``start`` on."""
        digits, starts, groups = _Digits(self.groups[axis]), list(self.starts), list(self.groups)
        steps = digits.steps(Factor(0, stride, size)) if digits.begin(start, starts) else None
        if steps is None or not digits.fits():
            return None
        groups[axis] = as_group(steps)
        return View(self.base, tuple(groups), tuple(starts))

    def of(self, inner: View) -> View | None:
        """The same elements in the base of ``inner``, which is what the base is a view of."""
        single = all(len(group) < 2 for group in inner.groups)
        return _renamed(self, inner) if single else _composed(self, inner)

    def onto(self, base: Value, axes: Iterable[int | None]) -> View:
        """The same elements of another base: the old one's axes are these of its, or repeated."""
        view = self.of(along(base, axes))
        assert view is not None, (self, base)
        return view

    def operand(self, index: int) -> View:
        """Operand ``index`` of the elementwise node that makes the base, along the same axes."""
        value, shape = self.node().inputs[index], self.base.shape
        if dims.same_shape(value.shape, shape):
            return View(value, self.groups, self.starts)
        if not value.shape:
            return View(value, ((),) * len(self.groups), ())
        shift = len(shape) - value.rank
        pairs = zip(value.shape, shape[shift:], strict=True)
        same = [a if dims.same(*pair) else None for a, pair in enumerate(pairs)]
        return self.onto(value, (*(None,) * shift, *same))


def along(base: Value, axes: Iterable[int | None] | None = None) -> View:
    """A value along all of its axes, or those that are given."""
    shape = base.shape
    chosen = range(len(shape)) if axes is None else axes
    groups = [
        () if a is None or dims.is_one(shape[a]) else (Factor(a, 1, shape[a]),) for a in chosen
    ]
    return View(base, tuple(groups), (0,) * len(shape))


def as_group(factors: Iterable[Factor]) -> Group:
    """Merge neighbours that are one stretch into one factor, without those of size one."""
    merged: list[Factor] = []
    for f in factors:
        if merged and merged[-1].axis == f.axis and dims.same(merged[-1].stride, f.stride * f.size):
            merged[-1] = Factor(f.axis, f.stride, dims.as_dim(merged[-1].size * f.size))
        elif not dims.is_one(f.size):
            merged.append(f)
    return tuple(merged) if any(f.axis is not None for f in merged) else ()


# ------------------------------------------------------------------------------------ composition


def _renamed(outer: View, inner: View) -> View:
    """The composition where each axis of the inner view is part of one of its base, or of none."""
    starts = list(inner.starts)
    for at, group in zip(outer.starts, inner.groups, strict=True):
        if group and not dims.same(at, 0):
            axis, stride, _ = group[0]
            starts[axis or 0] = dims.as_dim(starts[axis or 0] + stride * at)

    groups = tuple([_renamed_group(group, inner.groups) if group else () for group in outer.groups])
    return View(inner.base, groups, tuple(starts))


def _renamed_group(group: Group, inner: tuple[Group, ...]) -> Group:
    if len(group) > 1:
        return as_group([factor for one in group for factor in _renamed_factor(one, inner)])
    renamed = _renamed_factor(group[0], inner)
    return () if renamed[0].axis is None else renamed


def _renamed_factor(factor: Factor, inner: tuple[Group, ...]) -> Group:
    axis, stride, size = factor
    base_factors = () if axis is None else inner[axis]
    if not base_factors:
        return (Factor(None, 0, size),)
    own, unit, _ = base_factors[0]
    if unit != 1:
        return (Factor(own, dims.as_dim(unit * stride), size),)
    return (factor,) if own == axis else (Factor(own, stride, size),)


def _composed(outer: View, inner: View) -> View | None:
    axes = [_Digits(group) for group in inner.groups]
    starts = list(inner.starts)
    for axis, index in zip(axes, outer.starts, strict=True):
        if not axis.begin(index, starts):
            return None
    groups: list[Group] = []
    for own in outer.groups:
        factors: list[Factor] = []
        for factor in own:
            steps = [factor] if factor.axis is None else axes[factor.axis].steps(factor)
            if steps is None:
                return None
            factors += steps
        groups.append(as_group(factors))
    fits = all(axis.fits() for axis in axes)
    return View(inner.base, tuple(groups), tuple(starts)) if fits else None


class _Digits:
    """An axis between two views, as the inner one has it, and how far the outer goes along each."""

    def __init__(self, group: Group) -> None:
        self.group = group or (Factor(None, 0, 1),)
        self.low: list[Dim] = [0] * len(self.group)
        self.high: list[Dim] = [0] * len(self.group)

    def begin(self, index: Dim, starts: list[Dim]) -> bool:
        """Start at an index, if that can be written in digits; ``starts`` of the base follow."""
        for i in range(len(self.group) - 1, 0, -1):
            size = self.group[i].size
            if dims.all_static((index, size)):
                index, self.low[i] = divmod(index, size)
            elif not dims.same(index, 0):
                index = dims.exact_quotient(size, index)
                if index is None:
                    return False
        self.low[0] = index
        self.high = list(self.low)
        for (axis, stride, _), at in zip(self.group, self.low, strict=True):
            if axis is not None:
                starts[axis] = dims.as_dim(starts[axis] + stride * at)
        return True

    def steps(self, factor: Factor) -> list[Factor] | None:
        """Steps along the axis as steps along its digits, and so along the inner view's base."""
        _, stride, size = factor
        sign = 1 if is_forward(stride) else -1
        stride, inner_steps = dims.as_dim(stride * sign), list[Factor]()
        for i in range(len(self.group) - 1, 0, -1):
            room = self.group[i].size
            beyond = dims.exact_quotient(room, stride)
            if beyond is not None:
                stride = beyond
                continue
            if dims.is_at_least(room - 1 - stride * (size - 1), 0):
                return [self._step(i, sign * stride, size), *inner_steps]
            here = dims.exact_quotient(stride, room)
            left = None if here is None else dims.exact_quotient(here, size)
            if here is None or left is None:
                return None
            inner_steps.insert(0, self._step(i, sign * stride, here))
            stride, size = 1, left
        return [self._step(0, sign * stride, size), *inner_steps]

    def _step(self, i: int, stride: Dim, size: Dim) -> Factor:
        end = self.high if is_forward(stride) else self.low
        end[i] = dims.as_dim(end[i] + stride * (size - 1))
        axis, unit, _ = self.group[i]
        return Factor(axis, 0 if axis is None else dims.as_dim(stride * unit), size)

    def fits(self) -> bool:
        """Whether no digit is carried into the next."""
        parts = list(zip(self.group, self.low, self.high, strict=True))[1:]
        return all(
            dims.is_at_least(low, 0) and dims.is_at_least(digit.size - 1 - high, 0)
            for digit, low, high in parts
        )


def is_forward(stride: Dim) -> bool:
    return dims.is_at_least(stride, 0)
