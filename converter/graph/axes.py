"""One algebra of axes: values as views of others, through all that only moves elements.

Element (i, j, …) of a *view* is that of its base at

    starts + sum of stride * digit

where the digits are those of i, j, …: each axis of a view is a row of *factors*, of which the last
runs fastest, and a factor goes along one axis of the base, or along none, where elements are
repeated. An axis along which nothing varies has no factors, however long it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from converter.graph import dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.moves import Step, apply, rearranging, reshaping
from converter.graph.nodes import Node, Value
from converter.graph.op import Op
from converter.graph.rewrite import Editor


class Factor(NamedTuple):
    """``size`` steps of ``stride`` along an axis of the base, or the same element so often."""

    axis: int | None
    stride: Dim
    size: Dim


Group = tuple[Factor, ...]
"""The digits of an axis of a view."""


@dataclass(frozen=True)
class View:
    """``base`` along other axes, the factors of which are ``groups``, from ``starts`` on."""

    base: Value
    groups: tuple[Group, ...]
    starts: tuple[Dim, ...]

    def op(self) -> Op | None:
        return self.base.node.op if self.base.node is not None else None

    def node(self) -> Node:
        assert self.base.node is not None
        return self.base.node

    @cached_property
    def axes(self) -> tuple[int | None, ...]:
        """For each axis the one of the base along which it goes, if there is one."""
        return tuple(g[0].axis if len(g) == 1 else None for g in self.groups)

    @cached_property
    def is_whole(self) -> bool:
        """Whether each axis is a whole axis of the base, or none."""
        factors = [group[0] for group in self.groups if group]
        alone = all(len(group) < 2 for group in self.groups)
        full = (f.stride == 1 and dims.same(f.size, self.base.shape[f.axis or 0]) for f in factors)
        return alone and all(full) and all(dims.same(s, 0) for s in self.starts)

    def covers(self, along: Sequence[int]) -> bool:
        """Whether the value varies along the given axes only."""
        return not any(group for i, group in enumerate(self.groups) if i not in along)

    def is_writable(self) -> bool:
        """Whether ``write`` can write it: without gaps in what is seen of an axis."""
        return all(_nested(self.factors(axis)) is not None for axis in range(self.base.rank))

    def factors(self, axis: int) -> list[Factor]:
        """The factors that go along an axis of the base."""
        return [f for group in self.groups for f in group if f.axis == axis]

    def complete(self) -> bool:
        """Whether every axis of the base (longer than one) is one of the view."""
        real = {a for a, d in enumerate(self.base.shape) if not dims.same(d, 1)}
        return real <= set(self.axes)

    def fills(self, shape: Shape) -> bool:
        """Whether the value is not repeated along any axis of that shape."""
        return all(group or dims.same(d, 1) for group, d in zip(self.groups, shape, strict=True))

    def take(self, axes: Iterable[int | None]) -> View:
        """The same with its axes in another order, others left out or put in."""
        return replace(self, groups=tuple(() if a is None else self.groups[a] for a in axes))

    def put(self, axis: int, own: int) -> View:
        """With one of its axes along a whole axis of the base."""
        groups = list(self.groups)
        groups[axis] = _group([Factor(own, 1, self.base.shape[own])])
        return replace(self, groups=tuple(groups))

    def cut(self, axis: int, start: Dim, size: Dim) -> View | None:
        """Only ``size`` entries of an axis, from ``start`` on."""
        digits, starts, groups = _Digits(self.groups[axis]), list(self.starts), list(self.groups)
        found = digits.steps(Factor(0, 1, size)) if digits.begin(start, starts) else None
        if found is None or not digits.fits():
            return None
        groups[axis] = _group(found)
        return View(self.base, tuple(groups), tuple(starts))

    def of(self, inner: View) -> View | None:
        """The same elements in the base of ``inner``, which is what the base is a view of."""
        return _composed(self, inner)

    def onto(self, base: Value, axes: Iterable[int | None]) -> View:
        """The same elements of another base: the old one's axes are these of its, or repeated."""
        found = self.of(along(base, axes))
        assert found is not None, (self, base)
        return found

    def operand(self, index: int) -> View:
        """Operand ``index`` of the elementwise node that makes the base, along the same axes."""
        value, shape = self.node().inputs[index], self.base.shape
        shift = len(shape) - value.rank
        pairs = zip(value.shape, shape[shift:], strict=True)
        same = [a if dims.same(*pair) else None for a, pair in enumerate(pairs)]
        return self.onto(value, (*(None,) * shift, *same))

    def above(self) -> View | None:
        """The same elements in what the base's node moved, if that is all it does."""
        node = self.base.node
        if node is None or node.op not in _MOVES:
            return None
        inner = _MOVES[node.op](node)
        return None if inner is None else self.of(inner)

    def part(self) -> View | None:
        """The same elements in the operand of a concatenation that has all of them."""
        axis, offset = self.node().params["dimension"], 0
        low, high = _range(self, axis)
        for value in self.node().inputs:
            size = value.shape[axis]
            if not dims.all_static((low, high, size)):
                return None
            if offset <= low and high < offset + size:
                starts = (*self.starts[:axis], self.starts[axis] - offset, *self.starts[axis + 1 :])
                return View(value, self.groups, starts)
            offset += size
        return None


def along(base: Value, axes: Iterable[int | None] | None = None) -> View:
    """A value along all of its axes, or those that are given."""
    own = range(base.rank) if axes is None else axes
    groups = (() if a is None else _group([Factor(a, 1, base.shape[a])]) for a in own)
    return View(base, tuple(groups), (0,) * base.rank)


def _group(factors: Iterable[Factor]) -> Group:
    """In normal form: neighbours that are one stretch are one factor, and there are no ones."""
    found: list[Factor] = []
    for f in factors:
        if found and found[-1].axis == f.axis and dims.same(found[-1].stride, f.stride * f.size):
            found[-1] = Factor(f.axis, f.stride, dims.as_dim(found[-1].size * f.size))
        elif not dims.same(f.size, 1):
            found.append(f)
    return tuple(found) if any(f.axis is not None for f in found) else ()


def _range(seen: View, axis: int) -> tuple[Dim, Dim]:
    """The first and the last entry of an axis of the base that are seen."""
    ends = [f.stride * (f.size - 1) for f in seen.factors(axis)]
    start = seen.starts[axis]
    if not dims.all_static((start, *ends)):
        return start, dims.as_dim(start + sum(ends))
    return start + sum(e for e in ends if e < 0), start + sum(e for e in ends if e > 0)


# ------------------------------------------------------------------------------------ composition


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
            found = [factor] if factor.axis is None else axes[factor.axis].steps(factor)
            if found is None:
                return None
            factors += found
        groups.append(_group(factors))
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
                index = dims.divides(size, index)
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
        sign = 1 if _is_forward(stride) else -1
        stride, found = dims.as_dim(stride * sign), list[Factor]()
        for i in range(len(self.group) - 1, 0, -1):
            room = self.group[i].size
            beyond = dims.divides(room, stride)
            if beyond is not None:
                stride = beyond
                continue
            if dims.is_at_least(room - 1 - stride * (size - 1), 0):
                return [self._step(i, sign * stride, size), *found]
            here = dims.divides(stride, room)
            rest = None if here is None else dims.divides(here, size)
            if here is None or rest is None:
                return None
            found.insert(0, self._step(i, sign * stride, here))
            stride, size = 1, rest
        return [self._step(0, sign * stride, size), *found]

    def _step(self, i: int, stride: Dim, size: Dim) -> Factor:
        end = self.high if _is_forward(stride) else self.low
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


def _is_forward(stride: Dim) -> bool:
    return dims.is_at_least(stride, 0)


# ---------------------------------------------------------------------------- operations that move


def _transpose(node: Node) -> View:
    return along(node.inputs[0], node.params["permutation"])


def _broadcast(node: Node) -> View:
    source, axes = node.inputs[0], node.params["broadcast_dimensions"]
    table = {a: i for i, a in enumerate(axes) if dims.same(source.shape[i], node.out.shape[a])}
    return along(source, [table.get(a) for a in range(node.out.rank)])


def _tile(node: Node) -> View:
    whole, reps = along(node.inputs[0]), node.params["reps"]
    pairs = zip(reps, whole.base.shape, strict=True)
    groups = (_group([Factor(None, 0, r), Factor(i, 1, d)]) for i, (r, d) in enumerate(pairs))
    return replace(whole, groups=tuple(groups))


def _slice(node: Node) -> View:
    whole, params = along(node.inputs[0]), node.params
    strides = params["strides"] or (1,) * node.out.rank
    parts = enumerate(zip(strides, node.out.shape, strict=True))
    groups = tuple(_group([Factor(i, stride, size)]) for i, (stride, size) in parts)
    return View(whole.base, groups, tuple(params["start_indices"]))


def _rev(node: Node) -> View:
    source, turned = node.inputs[0], node.params["dimensions"]
    signs = [-1 if i in turned else 1 for i in range(source.rank)]
    groups = (_group([Factor(i, signs[i], d)]) for i, d in enumerate(source.shape))
    starts = (dims.as_dim(d - 1) if i in turned else 0 for i, d in enumerate(source.shape))
    return View(source, tuple(groups), tuple(starts))


def _reshape(node: Node) -> View | None:
    """Each axis of the result as stretches of the operand's, from the first on."""
    source, groups = node.inputs[0], list[Group]()
    queue = [f for group in along(source).groups for f in group]
    for left in node.out.shape:
        factors: list[Factor] = []
        while not dims.same(left, 1):
            if not queue:
                return None
            axis, _, size = queue.pop(0)
            rest = 1 if dims.same(size, left) else dims.divides(size, left)
            if rest is None:
                rest, inner = 1, dims.divides(left, size)
                if inner is None:
                    return None
                queue.insert(0, Factor(axis, 1, inner))
                factors.append(Factor(axis, inner, left))
            else:
                factors.append(Factor(axis, 1, size))
            left = rest
        groups.append(_group(factors))
    return None if queue else View(source, tuple(groups), (0,) * source.rank)


_MOVES: dict[Op, Callable[[Node], View | None]] = {
    ops.transpose: _transpose,
    ops.broadcast_in_dim: _broadcast,
    ops.tile: _tile,
    ops.slice: _slice,
    ops.rev: _rev,
    ops.reshape: _reshape,
}


# ---------------------------------------------------------------------------------------- writing


def write(editor: Editor, seen: View, shape: Shape, dtype: Any = None) -> Value:
    """A view as a value of that shape: the view's, but one where it says so."""
    steps = plan(seen, shape)
    assert steps is not None, seen
    moving = (i + 1 for i, (op, _) in enumerate(steps) if op in (ops.slice, ops.transpose))
    steps.insert(max(moving, default=0), (ops.convert_element_type, dtype or seen.base.dtype))
    return apply(editor, seen.base, steps)


def plan(seen: View, shape: Shape) -> list[Step] | None:
    """The fewest operations that make a view of its base, if it has no gaps in what is one axis."""
    steps: list[Step] = []
    source: list[Factor] = []
    sizes = list(seen.base.shape)
    for axis, whole in enumerate(seen.base.shape):
        own = _nested(seen.factors(axis))
        if own is None:
            return None
        source += own
        sizes[axis] = dims.product([f.size for f in own])
        if not dims.same(sizes[axis], whole):
            low, high = _range(seen, axis)
            stride = abs(own[-1].stride) if own else 1
            steps.append((ops.slice, (axis, low, dims.as_dim(high + 1), stride)))
    turned = tuple({f.axis: 0 for f in source if not _is_forward(f.stride)})
    steps += [(ops.rev, turned)] if turned else []
    return steps + _arranged(seen, source, tuple(sizes), shape)


def _nested(factors: list[Factor]) -> list[Factor] | None:
    """From the slowest to the fastest, if each goes on where the next ends."""
    ends = [f.stride * f.size for f in factors]
    fastest = [f for f in factors if not any(dims.same(f.stride, end) for end in ends)]
    found = fastest[:1]
    while found and len(found) < len(factors):
        end = found[0].stride * found[0].size
        after = [f for f in factors if dims.same(f.stride, end)]
        if len(after) != 1:
            return None
        found.insert(0, after[0])
    return found if len(found) == len(factors) else None


def _arranged(seen: View, source: list[Factor], sizes: Shape, shape: Shape) -> list[Step]:
    """A reshape, a transpose, a reshape and a broadcast, as far as they do anything."""
    runs = _runs(source, [f for group in seen.groups for f in group])
    ordered = sorted(runs, key=lambda run: source.index(run[0]))
    order = [ordered.index(run) for run in runs]
    split = tuple(dims.product([f.size for f in run]) for run in ordered)
    pieces = [
        piece for group, d in zip(seen.groups, shape, strict=True) for piece in _spread(group, d)
    ]
    if all(real or dims.same(d, 1) for d, real in pieces):
        return rearranging(sizes, split, order, shape)
    places = [i for i, (_, real) in enumerate(pieces) if real]
    bare, wide = tuple(pieces[i][0] for i in places), tuple(d for d, _ in pieces)
    steps = rearranging(sizes, split, order, bare)
    return [*steps, (ops.broadcast_in_dim, (wide, places)), *reshaping(wide, shape)]


def _spread(group: Group, size: Dim) -> list[tuple[Dim, bool]]:
    """The sizes of an axis as what is broadcast has them, and whether it varies along them."""
    repeated = any(f.axis is None for f in group)
    return [(f.size, f.axis is not None) for f in group] if repeated else [(size, bool(group))]


def _runs(source: list[Factor], flat: list[Factor]) -> list[list[Factor]]:
    """Factors that stay neighbours, in the view's order; those of different axes stay apart."""
    runs: list[list[Factor]] = []
    before: Factor | None = None
    for factor in flat:
        near = before in source[:-1] and source[source.index(before) + 1] == factor
        if before is not None and near and before.axis == factor.axis:
            runs[-1].append(factor)
        elif factor.axis is not None:
            runs.append([factor])
        before = factor
    return runs
