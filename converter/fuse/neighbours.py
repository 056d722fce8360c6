"""A neighbour of a place in an image: what is gathered, by which indices, and what masks it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import jax.numpy as jnp
import numpy as np
from jax.lax import GatherScatterMode

from converter.fuse.dependence import known
from converter.fuse.polynomials import settled_view
from converter.ir import Node, Value, dims, ops
from converter.ir.axes import Factor, View
from converter.ir.dims import Dim, Shape
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.ir.scalars import named_size, scalar


class Bound(NamedTuple):
    """Condition that ``floor(place) + step`` is at least 0, or below a ``size``."""

    place: View
    step: int
    size: int | str | None


Mask: TypeAlias = frozenset[Bound]
"""Conditions, all of which must hold."""


class Index(NamedTuple):
    """``floor(place) + step``, and whether it is brought within the image."""

    place: View
    step: int
    is_clipped: bool


@dataclass(frozen=True)
class Tap:
    """A gather of one pixel for every place, and the mask on it.

    ``logical`` are the logical axes of those of what is gathered; ``batch``, ``points`` and
    ``channels`` are the latter's axes. ``kept`` are the axes of the image in the order in which it
    is sampled: those of the batch, its channels, rows and columns, which may be one.
    """

    gather: Node
    height: Dim
    width: Dim
    row: Index
    column: Index
    mask: Mask
    logical: tuple[int | None, ...]
    batch: tuple[int, ...]
    points: tuple[int, ...]
    channels: tuple[int, ...]
    kept: tuple[int, ...]

    @property
    def is_clipped(self) -> bool:
        return self.row.is_clipped and self.column.is_clipped

    def is_beside(self, other: Tap) -> bool:
        """Whether both are neighbours of one place in one image."""
        own, others = (
            (id(t.gather.inputs[0]), t.logical, t.batch, t.kept, t.row.place, t.column.place)
            for t in (self, other)
        )
        return own == others

    def inside(self) -> Mask:
        """Conditions that the neighbour is in the image."""
        pairs = ((self.row, self.height), (self.column, self.width))
        return frozenset(
            Bound(index.place, index.step, None if low else _key(size))
            for index, size in pairs
            for low in (True, False)
        )

    def varies_as_written(self, place: View) -> bool:
        """Whether a place is the same for all channels."""
        along = [self.logical[axis] for axis in (*self.batch, *self.points)]
        return place.covers([axis for axis in along if axis is not None])

    def image(self, editor: Editor) -> Value:
        """The image as [batch, channels, rows, columns]."""
        x, sizes = editor.transpose(self.gather.inputs[0], self.kept), self.gather.out.shape
        count = dims.size_product([sizes[axis] for axis in self.batch])
        channels = dims.size_product([sizes[axis] for axis in self.channels])
        return editor.reshape(x, (count, channels, self.height, self.width))

    def restored(self, editor: Editor, made: Value, shape: Shape) -> Value:
        """[batch, channels, rows, columns] of what was sampled, along the logical axes."""
        axes = (*self.batch, *self.channels, *self.points)
        sizes = [self.gather.out.shape[axis] for axis in axes]
        value = editor.reshape(made, tuple(sizes))
        kept = [place for place, axis in enumerate(axes) if self.logical[axis] is not None]
        value = editor.reshape(value, tuple(sizes[place] for place in kept))
        order = [self.logical[axes[place]] for place in kept]
        turned = sorted(range(len(order)), key=lambda place: order[place] or 0)
        return editor.reshape(editor.transpose(value, turned), shape)


def tap_of(view: View) -> Tap | None:
    """The neighbour that a value is, perhaps masked with zeros."""
    mask: Mask | None = frozenset()
    if view.op() is ops.select_n and len(view.node().inputs) == 3:
        which, no, yes = (settled_view(view.operand(index)) for index in range(3))
        if scalar(no.base) != 0 or isinstance(scalar(no.base), bool):
            return None
        mask, view = _conditions(which), yes
    gathered = view.op() is ops.gather and view.is_whole
    return _tap(view, mask) if gathered and mask is not None else None


def _tap(view: View, mask: Mask) -> Tap | None:
    node = view.node()
    x, numbers, mode = node.inputs[0], node.params["dimension_numbers"], node.params["mode"]
    if not _gathers_pixels(node):
        return None
    free = [axis for axis in range(node.out.rank) if axis not in numbers.offset_dims]
    table = {group[0].axis: axis for axis, group in enumerate(view.groups) if group}
    logical = tuple(table.get(axis) for axis in range(node.out.rank))
    lots, indices = _lots_and_indices(view, node, free, logical)
    pixel = _pixel(indices, x.shape, mode is GatherScatterMode.CLIP)
    points = tuple(axis for axis in free if axis not in lots.values())
    if pixel is None or not points or len({*lots.values()}) != len(lots):
        return None
    height, width, row, column = pixel
    if not (mode in HELD or mask or (row.is_clipped and column.is_clipped)):
        return None
    inner = sorted(axis for axis, _ in indices)
    others = [axis for axis in range(x.rank) if axis not in (*lots, *inner)]
    in_order = sorted(lots, key=lambda axis: lots[axis])
    return Tap(
        gather=node,
        height=height,
        width=width,
        row=row,
        column=column,
        mask=mask,
        logical=logical,
        batch=tuple(lots[axis] for axis in in_order),
        points=points,
        channels=tuple(numbers.offset_dims),
        kept=(*in_order, *others, *inner),
    )


def _lots_and_indices(
    view: View, node: Node, free: list[int], logical: tuple[int | None, ...]
) -> tuple[dict[int, int], list[tuple[int, View]]]:
    """The axes of the image that are those of a batch, with the axis of what is gathered that goes
    along each; and the indices along the other axes."""
    x, numbers = node.inputs[0], node.params["dimension_numbers"]
    pairs = zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True)
    lots = {axis: free[place] for axis, place in pairs}
    indices: list[tuple[int, View]] = []
    for part, axis in enumerate(numbers.start_index_map):
        seen = _index_view(view, node, free, part)
        counted = _counts(seen, x.shape[axis])
        if counted is None:
            indices.append((axis, seen))
        elif counted in logical:
            lots[axis] = logical.index(counted)
    return lots, indices


HELD = (GatherScatterMode.PROMISE_IN_BOUNDS, GatherScatterMode.CLIP)
"""How a gather reads its operand where indices are beyond it: at the edge, whatever is promised."""


def _gathers_pixels(node: Node) -> bool:
    """Whether single entries are gathered along some axes, and all of the others."""
    x, numbers, slices = (
        node.inputs[0],
        node.params["dimension_numbers"],
        node.params["slice_sizes"],
    )
    pixels = numbers.start_index_map
    single = (*pixels, *numbers.operand_batching_dims)
    others = [axis for axis in range(x.rank) if axis not in single]
    whole = dims.same_shape([slices[axis] for axis in others], [x.shape[axis] for axis in others])
    usual = tuple(sorted(pixels)) == tuple(numbers.collapsed_slice_dims)
    return usual and whole and all(slices[axis] == 1 for axis in single)


def _index_view(view: View, node: Node, free: list[int], part: int) -> View:
    """One of the indices along the logical axes."""
    indices = node.inputs[1]
    places = {axis: place for place, axis in enumerate(free)}
    groups = tuple(
        (Factor(places[group[0].axis], 1, group[0].size),)
        if group and group[0].axis in places
        else ()
        for group in view.groups
    )
    return settled_view(View(indices, groups, (*(0,) * (indices.rank - 1), part)))


def _counts(view: View, size: Dim) -> int | None:
    """The logical axis along which an index counts all entries of one of the image's axes."""
    view = _wrapped(view, size) or view
    along = [axis for axis, group in enumerate(view.groups) if group]
    if len(along) != 1 or not view.is_whole:
        return None
    axis, base = view.groups[along[0]][0].axis, view.base
    if axis is None or not dims.same(base.shape[axis], size):
        return None
    if base.made_by(ops.iota) is not None:
        return along[0] if base.node and base.node.params["dimension"] == axis else None
    numbers = known(base)
    if numbers is None or not dims.is_static(size):
        return None
    turned = np.moveaxis(numbers, axis, -1)
    return (
        along[0] if np.array_equal(turned, np.broadcast_to(np.arange(size), turned.shape)) else None
    )


def _pixel(
    indices: list[tuple[int, View]], shape: Shape, clips: bool
) -> tuple[Dim, Dim, Index, Index] | None:
    """Height and width of an image, and the indices of a row and of a column in it."""
    if len(indices) == 2:
        (row_axis, row), (column_axis, column) = sorted(indices, key=lambda pair: pair[0])
        height, width = shape[row_axis], shape[column_axis]
        pair = _index(row, height, clips), _index(column, width, clips)
        return None if pair[0] is None or pair[1] is None else (height, width, pair[0], pair[1])
    if len(indices) != 1:
        return None
    ((axis, flat),) = indices
    return _flat_pixel(_wrapped(flat, shape[axis]) or flat, shape[axis])


def _flat_pixel(view: View, length: Dim) -> tuple[Dim, Dim, Index, Index] | None:
    """``row * width + column`` in an image whose rows lie one behind another."""
    if view.op() is not ops.add or not dims.is_static(length):
        return None
    pair = [settled_view(view.operand(index)) for index in (0, 1)]
    for rows, columns in (pair, pair[::-1]):
        for row, factor in _two_factors(rows):
            width = scalar(factor.base)
            if not isinstance(width, int) or width < 1 or length % width:
                continue
            indices = _index(row, length // width, False), _index(columns, width, False)
            if indices[0] is not None and indices[1] is not None:
                return length // width, width, indices[0], indices[1]
    return None


def _two_factors(view: View) -> list[tuple[View, View]]:
    """The two factors of a product, in both orders."""
    if view.op() is not ops.mul:
        return []
    one, other = (settled_view(view.operand(index)) for index in (0, 1))
    return [(one, other), (other, one)]


def _index(view: View, size: Dim, clips: bool) -> Index | None:
    """``floor(place) + step``, as it is, brought within the image, or counted from its end."""
    inner = _clipped(view, size)
    floor = floor_of(view if inner is None else inner)
    if floor is not None:
        return Index(*floor, inner is not None or clips)
    wrapped = _wrapped(view, size)
    floor = None if wrapped is None else floor_of(wrapped)
    return None if floor is None else Index(*floor, False)


def _clipped(view: View, size: Dim) -> View | None:
    """What is brought between 0 and the last index."""
    bounds: dict[Op, Callable[[View], bool]] = {
        ops.max: lambda bound: scalar(bound.base) == 0,
        ops.min: lambda bound: _is_size(bound, size, -1),
    }
    for first, second in ((ops.min, ops.max), (ops.max, ops.min)):
        inner = _other(view, first, bounds[first])
        inner = None if inner is None else _other(inner, second, bounds[second])
        if inner is not None:
            return inner
    return None


def _other(view: View, op: Op, is_bound: Callable[[View], bool]) -> View | None:
    """The operand beside a bound."""
    if view.op() is not op:
        return None
    pair = [settled_view(view.operand(index)) for index in (0, 1)]
    for one, other in (pair, pair[::-1]):
        if is_bound(one):
            return other
    return None


def _wrapped(view: View, size: Dim) -> View | None:
    """What is counted from the end where it is negative, as NumPy does."""
    if view.op() is not ops.select_n:
        return None
    which, no, yes = (settled_view(view.operand(index)) for index in range(3))
    negative = _other(which, ops.lt, lambda v: scalar(v.base) == 0)
    counted = _other(yes, ops.add, lambda v: _is_size(v, size))
    return no if negative == no == counted else None


def floor_of(view: View) -> tuple[View, int] | None:
    """(place, step) of ``floor(place) + step``, in whatever dtype."""
    step = 0
    for _ in range(6):
        view = settled_view(view)
        op = view.op()
        if op is ops.floor:
            return settled_view(view.operand(0)), step
        if op is ops.convert_element_type and _keeps_whole(view.node()):
            view = view.operand(0)
        elif op in (ops.add, ops.sub):
            first, second = (settled_view(view.operand(index)) for index in (0, 1))
            if op is ops.add and scalar(first.base) is not None:
                first, second = second, first
            number = scalar(second.base)
            if number is None or not float(number).is_integer():
                return None
            step += int(number) if op is ops.add else -int(number)
            view = first
        else:
            return None
    return None


def _keeps_whole(node: Node) -> bool:
    """Whether a conversion keeps the whole numbers that an index may be."""
    pair = [node.inputs[0].dtype, node.out.dtype]
    whole = [dtype for dtype in pair if dtype.kind == "i"]
    floats = [dtype for dtype in pair if jnp.issubdtype(dtype, jnp.floating)]
    wide = all(dtype.itemsize >= 4 for dtype in pair)
    return wide and len(whole) + len(floats) == 2 and len(whole) > 0


def mask_of(view: View) -> Mask | None:
    """The conditions of which a value is one where they hold, and zero elsewhere."""
    if view.op() is not ops.convert_element_type or view.node().inputs[0].dtype != np.bool_:
        return None
    return _conditions(settled_view(view.operand(0)))


def _conditions(view: View) -> Mask | None:
    """Bounds of indices, all of which a mask asks for; None where it asks for something else."""
    if view.op() is ops.and_:
        pair = [_conditions(settled_view(view.operand(index))) for index in (0, 1)]
        return None if None in pair else frozenset().union(*(each for each in pair if each))
    op = view.op()
    if op is None or op not in _MIRRORED:
        return None
    left, right = (settled_view(view.operand(index)) for index in (0, 1))
    if (floor := floor_of(left)) is None:
        op, right, floor = _MIRRORED[op], left, floor_of(right)
    bound = None if floor is None else _bound(op, right)
    return None if floor is None or bound is None else frozenset({Bound(*floor, bound[0])})


_MIRRORED = {ops.lt: ops.gt, ops.gt: ops.lt, ops.le: ops.ge, ops.ge: ops.le}


def _bound(op: Op, view: View) -> tuple[int | str | None] | None:
    """The size below which something is, or that it is not negative."""
    number, size = scalar(view.base), named_size(view.base)
    if number is not None and not float(number).is_integer():
        return None
    if number is not None and op in (ops.ge, ops.gt):
        return (None,) if number == (0 if op is ops.ge else -1) else None
    if op not in (ops.lt, ops.le):
        return None
    more = int(op is ops.le)
    if number is not None:
        return (int(number) + more,)
    return None if size is None else (_key(dims.as_dim(size + more)),)


def _key(size: Dim) -> int | str:
    """A size as something that is equal to the same."""
    return int(size) if dims.is_static(size) else str(size)


def _is_size(view: View, size: Dim, more: int = 0) -> bool:
    """Whether a number is a size, or another next to it."""
    number, named = scalar(view.base), named_size(view.base)
    if number is not None:
        return dims.is_static(size) and number == size + more
    return named is not None and dims.same(named, dims.as_dim(size + more))
