"""Bilinear sampling: four gathers of neighbours, weighed by how near they are.

JAX has no operation for it. ``jax.scipy.ndimage.map_coordinates`` of order 1, and what people write
by hand, gather the four pixels around each place and add them up, in one of many orders:

    (1 - b) (1 - a) x[i, j] + (1 - b) a x[i, j + 1] + b (1 - a) x[i + 1, j] + b a x[i + 1, j + 1]

``i, j = floor(row), floor(column)``, and ``b, a`` are what is left of them. Multiplied out, all of
these are one polynomial (``polynomials``), which is the proof. What lies outside of the image is
zero if a mask says so, or else its edge if indices are clipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from converter.fuse.match import Recogniser, Uses, proved
from converter.fuse.neighbours import Mask, Tap, floor_of, mask_of, tap_of
from converter.fuse.polynomials import (
    ONE,
    Leaf,
    Polynomial,
    as_polynomial,
    multiplied_out,
    settled_view,
    total,
)
from converter.ir import Node, Value, const, dims, ops
from converter.ir.axes import Factor, View, along
from converter.ir.dims import Dim
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import named_size, scalar

CORNERS = {(0, 0), (0, 1), (1, 0), (1, 1)}
"""Steps from a place's row and column to its neighbours."""

WEIGHTS = "the weights are not those of linear interpolation between neighbours"
OUTSIDE = "what lies outside of the image is neither zero throughout nor its edge"


@dataclass(frozen=True)
class Sampling:
    """Value that is sampled, where along the logical axes, and what lies outside."""

    tap: Tap
    row: View
    column: View
    padding: str


def _prove(node: Node, uses: Uses) -> Sampling | str | None:
    root = along(node.out)
    makers = [settled_view(root.operand(index)).op() for index in (0, 1)]
    sums = {*makers} <= {ops.mul, ops.add, ops.sub}
    # Places in fewer digits than these are off by pixels.
    if (
        not sums
        or node.out.dtype != np.float32
        or not uses.takes("GridSample", np.dtype(np.float32))
    ):
        return None
    reached: list[Tap] = []
    as_polynomial(root, _leaf(reached))
    if len(reached) != 4 or any(not tap.is_beside(reached[0]) for tap in reached):
        return None
    taps, first = list[Tap](), reached[0]
    terms = as_polynomial(root, _leaf(taps), (first.row.place, first.column.place))
    if terms is None:
        return WEIGHTS
    corners = {(tap.row.step, tap.column.step) for tap in taps}
    parts = [_sampling_weight(terms, number) for number in range(4)]
    if corners != CORNERS or sum(len(part) for part, _ in parts) != len(terms):
        return WEIGHTS
    for tap, (part, _) in zip(taps, parts, strict=True):
        if part != multiplied_out(_weight(tap.row.place, tap.row.step), _weight(*tap.column[:2])):
            return WEIGHTS
    masks = [tap.mask | extra for tap, (_, extra) in zip(taps, parts, strict=True)]
    if not all(first.varies_as_written(index.place) for index in (first.row, first.column)):
        return None
    if all(mask == tap.inside() for mask, tap in zip(masks, taps, strict=True)):
        return Sampling(first, first.row.place, first.column.place, "zeros")
    clipped = all(tap.is_clipped and not mask for mask, tap in zip(masks, taps, strict=True))
    return Sampling(first, first.row.place, first.column.place, "border") if clipped else OUTSIDE


def _leaf(taps: list[Tap]) -> Leaf:
    def leaf(view: View) -> Polynomial:
        if (tap := tap_of(view)) is not None:
            taps.append(tap)
            return {frozenset({("tap", len(taps) - 1)}): 1.0}
        if (mask := mask_of(view)) is not None:
            return {frozenset({("mask", mask)}): 1.0}
        if (floor := floor_of(view)) is not None:
            place, step = floor
            return total({frozenset({("floor", place)}): 1.0}, {ONE: float(step)})
        return {frozenset({("place", view)}): 1.0}

    return leaf


def _sampling_weight(terms: Polynomial, number: int) -> tuple[Polynomial, Mask]:
    """What a neighbour is multiplied by, and what masks it."""
    part: Polynomial = {}
    masks: set[Mask] = set()
    for monomial, coefficient in terms.items():
        if ("tap", number) not in monomial:
            continue
        factors = [atom for atom in monomial if atom != ("tap", number)]
        masks.add(frozenset().union(*(atom[1] for atom in factors if atom[0] == "mask")))
        part[frozenset(atom for atom in factors if atom[0] != "mask")] = coefficient
    return part, masks.pop() if len(masks) == 1 else frozenset()


def _weight(place: View, step: int) -> Polynomial:
    """Of the neighbour before a place, or of the next."""
    left: Polynomial = {frozenset({("place", place)}): 1.0, frozenset({("floor", place)}): -1.0}
    return left if step else total({ONE: 1.0}, left, -1.0)


# ------------------------------------------------------------------------------------- the writing


class AffineCoordinate(NamedTuple):
    """``view * scale + shift`` is a place from -1 to 1, from edge to edge."""

    view: View
    scale: float
    shift: float


def _build(node: Node, sampling: Sampling, editor: Editor) -> Value:
    tap, shape = sampling.tap, node.out.shape
    image = tap.image(editor)
    batch, points = tap.batch, tap.points
    where = [_scaled(sampling.column, tap.width), _scaled(sampling.row, tap.height)]
    sizes = [tap.gather.out.shape[axis] for axis in (*batch, *points)]
    order = [tap.logical[axis] for axis in (*batch, *points)]
    pair = _beside([each.view for each in where]) if where[0].scale and where[1].scale else None
    if pair is not None:
        grid = write(editor, pair.take([*order, len(pair.groups) - 1]), (*sizes, 2), node.out.dtype)
    else:
        parts = []
        for each, size in zip(where, (tap.width, tap.height), strict=True):
            value = write(editor, each.view.take(order), tuple(sizes), node.out.dtype)
            value = value if each.scale else _normalised(editor, value, size)
            parts.append(editor.reshape(value, (*sizes, 1)))
        grid = editor.concatenate(parts, len(sizes))
    scales = [each.scale or 1.0 for each in where]
    shifts = [each.shift for each in where]
    grid = _affine(editor, grid, scales, shifts)
    if sampling.padding == "border":
        # A runtime loses the weights of places that are very far away.
        for op, end in ((ops.max, -2.0), (ops.min, 2.0)):
            grid = editor.binary(op, grid, const(end, node.out.dtype))
    count = dims.size_product([tap.gather.out.shape[axis] for axis in batch])
    sides = sizes[len(batch) :]
    flat = (count, dims.size_product(sides[:-1]), sides[-1] if sides else 1, 2)
    grid = editor.reshape(grid, flat)
    made = editor.add(
        ops.grid_sample,
        [image, grid],
        (*image.shape[:2], *flat[1:3]),
        node.out.dtype,
        {"padding": sampling.padding},
    )
    return tap.restored(editor, made, shape)


def _beside(views: Sequence[View]) -> View | None:
    """Two entries of one axis as another axis, behind all others, if that is what they are."""
    first, second = views
    if first.base is not second.base or first.groups != second.groups:
        return None
    moved = [
        axis
        for axis, pair in enumerate(zip(first.starts, second.starts, strict=True))
        if not dims.same(*pair)
    ]
    steps = [dims.as_dim(second.starts[axis] - first.starts[axis]) for axis in moved]
    if steps != [1]:
        return None
    return View(first.base, (*first.groups, (Factor(moved[0], 1, 2),)), first.starts)


def _scaled(place: View, size: Dim) -> AffineCoordinate:
    """A place in pixels, seen as a multiple of another value and a number, if it is one.

    A scale of zero says that the size has a name, and that the place has to be computed of it.
    """
    view, shift = place, 0.0
    factor: float | Dim = 1.0
    if view.op() in (ops.add, ops.sub):
        sign = 1.0 if view.op() is ops.add else -1.0
        first, second = (settled_view(view.operand(index)) for index in (0, 1))
        if (number := scalar(second.base)) is not None:
            view, shift = first, sign * float(number)
        elif view.op() is ops.add and (number := scalar(first.base)) is not None:
            view, shift = second, float(number)
    if view.op() is ops.mul:
        pair = [settled_view(view.operand(index)) for index in (0, 1)]
        for one, other in (pair, pair[::-1]):
            number = scalar(other.base)
            named = named_size(other.base) if number is None else number
            if named is not None:
                view, factor = one, named
                break
    if dims.is_static(size):
        if dims.is_static(factor) or isinstance(factor, float):
            return AffineCoordinate(view, 2 * float(factor) / size, (2 * shift + 1) / size - 1)
        return AffineCoordinate(place, 2 / size, 1 / size - 1)
    if not isinstance(factor, float) and dims.same(factor, size) and shift == -0.5:
        return AffineCoordinate(view, 2.0, -1.0)
    return AffineCoordinate(place, 0.0, 0.0)


def _normalised(editor: Editor, value: Value, size: Dim) -> Value:
    """``(2 * value + 1) / size - 1`` of a size that has a name."""
    number = editor.add(ops.dim_as_value, [], (), np.dtype(np.int64), {"dim": size})
    doubled = _affine(editor, value, [2.0], [1.0])
    share = editor.binary(ops.div, doubled, editor.convert(number, value.dtype))
    return editor.binary(ops.sub, share, const(1.0, value.dtype))


def _affine(
    editor: Editor, value: Value, scales: Sequence[float], shifts: Sequence[float]
) -> Value:
    """The value times the scales plus the shifts, which are along the last axis."""
    for op, numbers, neutral in ((ops.mul, scales, 1.0), (ops.add, shifts, 0.0)):
        if all(number == neutral for number in numbers):
            continue
        same = len({*numbers}) == 1
        array = const(numbers[0] if same else np.asarray(numbers), value.dtype)
        value = editor.binary(op, value, array)
    return value


GRID_SAMPLE: Recogniser = proved("GridSample", (ops.add, ops.sub), _prove, _build)
