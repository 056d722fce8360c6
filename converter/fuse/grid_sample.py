"""Calls of ``jax.scipy.ndimage.map_coordinates`` of order 1 as ONNX's ``GridSample``.

A call is named first (``SAMPLE_CALL``, on the graph as it was traced): its batches, and what lies
outside of the image, which is zero or the image's edge. ``grid_sample_recogniser`` then writes its
places from -1 to 1. Sampling that is written by hand stays gathers and products.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, permutations
from typing import NamedTuple, TypeAlias

import jax
import numpy as np
from jax.scipy.ndimage import map_coordinates

from converter.frontend.trace import trace
from converter.fuse.match import NearMiss, Recogniser, peel_moves, whole
from converter.fuse.named_calls import call_order, call_results, vmap_axes
from converter.ir import Node, Value, const, dims, formulas, ops
from converter.ir.axes import Factor, View, along
from converter.ir.dims import Dim, Shape
from converter.ir.moves import write
from converter.ir.rewrite import Editor
from converter.ir.scalars import named_size, scalar

# -------------------------------------------------------------------------------------- the call

Level: TypeAlias = tuple[int, int | None]
"""Axes of the image and of the places that one ``vmap`` batches, each among those that are left;
None for places that are the same for all."""

PADDINGS = {"zeros": "constant", "border": "nearest"}
"""Modes of `map_coordinates` by ONNX's name."""

MOST_TRIES = 24
"""Ways in which a call may have been batched that are compared with it."""


@dataclass(frozen=True)
class SampleCall:
    """Sampling of an image by a call.

    ``batch`` are the axes of the image that the places have too, and these in ``places``,
    ``channels`` the other batched ones. ``order`` are the axes of the result in the order of the
    batched axes of the image (``levels``) and of the points.
    """

    batch: tuple[int, ...]
    places: tuple[int, ...]
    channels: tuple[int, ...]
    levels: tuple[int, ...]
    order: tuple[int, ...]
    padding: str


def _name_call(node: Node, editor: Editor, notes: list[NearMiss]) -> list[Value] | None:
    if node.params["name"] != "_map_coordinates" or len(node.inputs) != 3:
        return None
    # Places in fewer digits than these are off by pixels.
    if any(value.dtype != np.float32 for value in node.inputs) or len(node.outputs) != 1:
        return None
    call = match_sample_call(node)
    return None if call is None else call_results(node, _sampled(node, call, editor), editor)


def match_sample_call(node: Node) -> SampleCall | None:
    """Return what a call of ``_map_coordinates`` does, by tracing it with each batch and mode."""
    x, rows, columns = node.inputs
    pixels = _pixel_axes(node)
    if pixels is None or not dims.same_shape(rows.shape, columns.shape):
        return None
    shared, batched = pixels
    for levels, axes in islice(_levels(x.shape, rows.shape, batched, shared), MOST_TRIES):
        for padding, mode in PADDINGS.items():
            vmaps = [(image, place, place) for image, place in levels]
            order = call_order(node, vmap_axes(partial(_coordinates, mode=mode), vmaps))
            if order is not None:
                batch = tuple(image for image, place in axes if place is not None)
                places = tuple(place for _, place in axes if place is not None)
                channels = tuple(image for image, place in axes if place is None)
                all_levels = tuple(image for image, _ in axes)
                return SampleCall(batch, places, channels, all_levels, order, padding)
    return None


def _coordinates(x: jax.Array, rows: jax.Array, columns: jax.Array, *, mode: str) -> jax.Array:
    return map_coordinates(x, [rows, columns], order=1, mode=mode)


def _pixel_axes(node: Node) -> tuple[set[int | None], list[int]] | None:
    """Axes of the image that are batched together with the places, and all that are batched, by
    what gathers from it; a trace proves it."""
    body = node.bodies["call"]
    image = body.inputs[0]
    for inner in body.nodes:
        if inner.op is not ops.gather:
            continue
        seen, numbers = whole(inner.inputs[0]), inner.params["dimension_numbers"]
        if seen.base is not image or not seen.is_whole:
            continue
        shared = {seen.axes[axis] for axis in numbers.operand_batching_dims}
        pixels = {seen.axes[axis] for axis in numbers.start_index_map} - shared
        batched = [axis for axis in range(image.rank) if axis not in pixels]
        return (shared, batched) if len(pixels) == 2 else None
    return None


def _levels(
    shape: Shape, places: Shape, batched: Sequence[int], shared: set[int | None]
) -> Iterator[tuple[list[Level], list[Level]]]:
    """Yield the levels of ``vmap`` that batch these axes, and the same as axes of the operands."""
    for order in permutations(batched):
        for axes in _place_axes(shape, places, order, shared, ()):
            levels = [
                (
                    image - sum(other < image for other, _ in axes[:number]),
                    None
                    if place is None
                    else place
                    - sum(other is not None and other < place for _, other in axes[:number]),
                )
                for number, (image, place) in enumerate(axes)
            ]
            yield levels, axes


def _place_axes(
    shape: Shape,
    places: Shape,
    order: Sequence[int],
    shared: set[int | None],
    taken: tuple[int, ...],
) -> Iterator[list[Level]]:
    """Yield an axis of the places for each axis of the image that is batched with them."""
    if not order:
        yield []
        return
    image, *rest = order
    same = [i for i, d in enumerate(places) if i not in taken and dims.same(d, shape[image])]
    for place in same if image in shared else [None]:
        more = taken if place is None else (*taken, place)
        for others in _place_axes(shape, places, rest, shared, more):
            yield [(image, place), *others]


def _sampled(node: Node, call: SampleCall, editor: Editor) -> Value:
    """``sample_at`` in place of a call."""
    x, *where = node.inputs
    batched = (*call.batch, *call.channels)
    pixels = [axis for axis in range(x.rank) if axis not in batched]
    batch = [x.shape[axis] for axis in call.batch]
    channels = [x.shape[axis] for axis in call.channels]
    count = dims.size_product(batch)
    flat = (count, dims.size_product(channels), *(x.shape[axis] for axis in pixels))
    image = editor.reshape(editor.transpose(x, (*batched, *pixels)), flat)
    points = [axis for axis in range(where[0].rank) if axis not in call.places]
    sizes = [where[0].shape[axis] for axis in points]
    moved = [
        editor.reshape(editor.transpose(v, (*call.places, *points)), (count, *sizes)) for v in where
    ]
    shape = (*flat[:2], *sizes)
    params = {"padding": call.padding}
    made = editor.add(ops.sample_at, [image, *moved], shape, x.dtype, params)
    made = editor.reshape(made, (*batch, *channels, *sizes))
    # From batch, channels, points to the order of the result.
    own = [call.order[call.levels.index(axis)] for axis in batched]
    own += call.order[len(batched) :]
    return editor.transpose(made, [own.index(axis) for axis in range(len(own))])


SAMPLE_CALL = Recogniser((ops.named_call,), _name_call)

# ---------------------------------------------------------------------------------- the operator


def grid_sample_recogniser(strict: bool) -> Recogniser:
    """The recogniser; ``strict`` leaves gathers, as the operator gives a number at a place that is
    none."""

    def match(node: Node, editor: Editor, notes: list[NearMiss]) -> Value:
        if strict or not editor.takes("GridSample", np.dtype(np.float32)):
            specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
            function = partial(formulas.sample_at, **node.params)
            return editor.inline(trace(function, specs), node.inputs)[0]
        return _grid_sample(node, editor)

    return Recogniser((ops.sample_at,), match)


class AffineCoordinate(NamedTuple):
    """``view * scale + shift`` is a place from -1 to 1, from edge to edge."""

    view: View
    scale: float
    shift: float


def _grid_sample(node: Node, editor: Editor) -> Value:
    image, rows, columns = node.inputs
    (height, width), dtype = image.shape[2:], node.out.dtype
    kept = [i for i, d in enumerate(rows.shape) if i or not dims.same(d, 1)]
    sizes = tuple(rows.shape[i] for i in kept)
    where = [
        _scaled(peel_moves(along(places)).take(kept), size)
        for places, size in ((columns, width), (rows, height))
    ]
    pair = _beside([each.view for each in where]) if where[0].scale and where[1].scale else None
    if pair is not None:
        grid = write(editor, pair, (*sizes, 2), dtype)
    else:
        parts = []
        for each, size in zip(where, (width, height), strict=True):
            value = write(editor, each.view, sizes, dtype)
            value = value if each.scale else _normalised(editor, value, size)
            parts.append(editor.reshape(value, (*sizes, 1)))
        grid = editor.concatenate(parts, len(sizes))
    scales = [each.scale or 1.0 for each in where]
    shifts = [each.shift for each in where]
    grid = _affine(editor, grid, scales, shifts)
    if node.params["padding"] == "border":
        # A runtime loses the weights of places that are very far away.
        for op, end in ((ops.max, -2.0), (ops.min, 2.0)):
            grid = editor.binary(op, grid, const(end, dtype))
    points = rows.shape[1:]
    flat = (rows.shape[0], dims.size_product(points[:-1]), points[-1] if points else 1, 2)
    grid = editor.reshape(grid, flat)
    shape = (*image.shape[:2], *flat[1:3])
    made = editor.add(ops.grid_sample, [image, grid], shape, dtype, node.params)
    return editor.reshape(made, node.out.shape)


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
        first, second = (peel_moves(view.operand(index)) for index in (0, 1))
        if (number := scalar(second.base)) is not None:
            view, shift = first, sign * float(number)
        elif view.op() is ops.add and (number := scalar(first.base)) is not None:
            view, shift = second, float(number)
    if view.op() is ops.mul:
        pair = [peel_moves(view.operand(index)) for index in (0, 1)]
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
