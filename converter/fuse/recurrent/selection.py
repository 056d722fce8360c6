"""Parts of values along logical axes, seen through slices, reshapes and all that only moves.

A ``View`` sees whole values; the gates of a recurrent cell are parts of one, side by side, one
behind the other or in rows of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from converter.graph import Node, Value, dims, ops
from converter.graph.dims import Dim, Shape
from converter.graph.op import Op
from converter.graph.rewrite import Editor
from converter.graph.slices import has_strides

TIME, INNER = -1, -2
"""Logical axes besides those of a cell: of a loop's rounds, and that over which a product sums."""


@dataclass(frozen=True)
class Place:
    """Along an axis, ``size`` entries from ``start`` on are the logical axis, if it has one."""

    logical: int | None
    start: int
    size: Dim


Places: TypeAlias = tuple[Place, ...]
Sizes: TypeAlias = Mapping[int, Dim]
FIRST = Place(None, 0, 1)


@dataclass(frozen=True)
class Selection:
    """The part of ``base`` that has, along each of its axes, what ``places`` says.

    ``backwards`` says that the loop's rounds are counted from the end.
    """

    base: Value
    places: Places
    backwards: bool = False

    def op(self) -> Op | None:
        return self.base.node.op if self.base.node is not None else None

    def node(self) -> Node:
        assert self.base.node is not None
        return self.base.node

    def has(self, logical: int) -> bool:
        return any(p.logical == logical for p in self.places)

    def renamed(self, table: Mapping[int, int]) -> Selection:
        """The same along other logical axes."""
        return replace(
            self,
            places=tuple(
                replace(p, logical=None if p.logical is None else table.get(p.logical, p.logical))
                for p in self.places
            ),
        )

    def is_whole(self) -> bool:
        """Whether it is all of the base."""
        return all(dims.same(p.size, d) for p, d in zip(self.places, self.base.shape, strict=True))

    def descended(self) -> Selection:
        """The same elements where they were computed."""
        found = self
        while (node := found.base.node) is not None and node.op in _THROUGH:
            inner = _THROUGH[node.op](found, node)
            if inner is None:
                break
            found = inner
        return found

    def operands(self) -> list[Selection]:
        """The operands of the elementwise node that makes the base, descended."""
        found = []
        for value in self.node().inputs:
            places = self.places[len(self.places) - value.rank :]
            kept = tuple(
                FIRST if dims.same(d, 1) else p for p, d in zip(places, value.shape, strict=True)
            )
            found.append(replace(self, base=value, places=kept).descended())
        return found

    def materialised(self, editor: Editor, axes: Sequence[int], sizes: Sizes) -> Value:
        """The value along these logical axes; where it does not vary, it is repeated."""
        value = self.base
        for axis, at in enumerate(self.places):
            value = editor.slice(value, axis, at.start, dims.as_dim(at.start + at.size))
        kept = [p.logical for p in self.places if p.logical is not None]
        bare = editor.reshape(value, tuple(p.size for p in self.places if p.logical is not None))
        order = [a for a in axes if a in kept]
        turned = editor.transpose(bare, [kept.index(a) for a in order])
        present = [i for i, a in enumerate(axes) if a in kept]
        return editor.broadcast(turned, tuple(sizes[a] for a in axes), present)


def select(value: Value, axes: Sequence[int]) -> Selection:
    """All of a value, its axes having the given names, where it was computed."""
    places = tuple(place(a, 0, d) for a, d in zip(axes, value.shape, strict=True))
    return Selection(value, places).descended()


def place(logical: int | None, start: int, size: Dim) -> Place:
    """What is one entry long is no logical axis."""
    return Place(None if dims.same(size, 1) else logical, start, size)


def _through_transpose(found: Selection, node: Node) -> Selection | None:
    order = node.params["permutation"]
    places = tuple(found.places[order.index(a)] for a in range(len(order)))
    return replace(found, base=node.inputs[0], places=places)


def _through_slice(found: Selection, node: Node) -> Selection | None:
    starts = node.params["start_indices"]
    if has_strides(node) or not dims.all_static(starts):
        return None
    places = tuple(
        replace(p, start=p.start + start) for p, start in zip(found.places, starts, strict=True)
    )
    return replace(found, base=node.inputs[0], places=places)


def _through_broadcast(found: Selection, node: Node) -> Selection | None:
    axes, source = node.params["broadcast_dimensions"], node.inputs[0]
    places = tuple(
        found.places[a] if dims.same(d, node.out.shape[a]) else FIRST
        for a, d in zip(axes, source.shape, strict=True)
    )
    return replace(found, base=source, places=places)


def _through_concatenate(found: Selection, node: Node) -> Selection | None:
    """Into the part that has all of it."""
    axis, offset = node.params["dimension"], 0
    taken = found.places[axis]
    for part in node.inputs:
        size = part.shape[axis]
        if not dims.is_static(size) or not dims.is_static(taken.size):
            return None
        if offset <= taken.start and taken.start + taken.size <= offset + size:
            moved = replace(taken, start=taken.start - offset)
            places = (*found.places[:axis], moved, *found.places[axis + 1 :])
            return replace(found, base=part, places=places)
        offset += size
    return None


def _through_rev(found: Selection, node: Node) -> Selection | None:
    """Rounds that are all there are counted from the other end."""
    turned = [found.places[axis] for axis in node.params["dimensions"]]
    real = [p for p in turned if p.logical is not None]
    lone = len(turned) == 1 and len(real) == 1 and real[0].logical == TIME
    if not lone or not dims.same(real[0].size, node.out.shape[node.params["dimensions"][0]]):
        return None
    return replace(found, base=node.inputs[0], backwards=not found.backwards)


def _through_reshape(found: Selection, node: Node) -> Selection | None:
    source = node.inputs[0]
    groups = _groups(source.shape, node.out.shape)
    if groups is None:
        return None
    places = [FIRST] * source.rank
    for inner, outer in groups:
        sizes = [source.shape[a] for a in inner]
        parts = [found.places[a] for a in outer]
        if len(outer) == 1:
            moved = _split(parts[0], sizes)
        elif len(inner) == 1:
            moved = _merged(parts, [node.out.shape[a] for a in outer])
        else:
            moved = None
        if moved is None:
            return None
        for axis, part in zip(inner, moved, strict=True):
            places[axis] = part
    return replace(found, base=source, places=tuple(places))


def _groups(source: Shape, target: Shape) -> list[tuple[list[int], list[int]]] | None:
    """Axes of the one that are axes of the other together; axes of one are none's."""
    lefts, rights = ([a for a, d in enumerate(s) if not dims.same(d, 1)] for s in (source, target))
    groups = []
    while lefts and rights:
        inner, outer = [lefts.pop(0)], [rights.pop(0)]
        while not dims.same(one := _size(source, inner), other := _size(target, outer)):
            shorter = dims.is_static(one) and dims.is_static(other) and one < other
            axes, rest = (inner, lefts) if shorter else (outer, rights)
            if not rest or not (dims.is_static(one) and dims.is_static(other)):
                return None
            axes.append(rest.pop(0))
        groups.append((inner, outer))
    return None if lefts or rights else groups


def _size(shape: Shape, axes: Sequence[int]) -> Dim:
    return dims.product([shape[a] for a in axes])


def _split(merged: Place, sizes: Sequence[Dim]) -> list[Place] | None:
    """What lies along one axis, along the axes that were merged to it."""
    if len(sizes) == 1:
        return [merged]
    last = sizes[-1]
    rest, start = divmod(merged.start, last)
    if not dims.is_static(merged.size) or start + merged.size > last:
        return None
    places = [replace(merged, start=start)]
    for size in reversed(sizes[:-1]):
        rest, index = divmod(rest, size)
        places.insert(0, Place(None, index, 1))
    return places


def _merged(places: Sequence[Place], sizes: Sequence[Dim]) -> list[Place] | None:
    """What lies along several axes, along the one that was split: all but the last are fixed."""
    *fixed, last = places
    if any(not dims.same(p.size, 1) for p in fixed):
        return None
    start = 0
    for part, size in zip(places, sizes, strict=True):
        start = start * size + part.start
    return [replace(last, start=start)]


_THROUGH: dict[Op, Callable[[Selection, Node], Selection | None]] = {
    ops.transpose: _through_transpose,
    ops.slice: _through_slice,
    ops.broadcast_in_dim: _through_broadcast,
    ops.concatenate: _through_concatenate,
    ops.rev: _through_rev,
    ops.reshape: _through_reshape,
}
