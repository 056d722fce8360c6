"""Calls of ``jax.scipy.ndimage.map_coordinates`` of order 1 as ONNX's ``GridSample``.

``SAMPLE_CALL`` matches a call on the traced graph: its batch axes, and the padding outside of the
image, zeros or the image's edge. ``grid_sample_recogniser`` then emits the operator, with
coordinates from -1 to 1. Sampling that a user writes with gathers and products is not matched.
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
from converter.fuse.match import NearMiss, Recogniser, peeled_view
from converter.fuse.named_calls import call_order, call_results, vmap_axes
from converter.ir import Node, Value, const, dims, formulas, ops
from converter.ir.axes import Factor, View, view_of
from converter.ir.dims import Dim, Shape
from converter.ir.moves import emit_view, look_through
from converter.ir.rewrite import Editor
from converter.ir.scalars import named_size, scalar

# -------------------------------------------------------------------------------------- the call

Level: TypeAlias = tuple[int, int | None]
"""An axis of the image and the axis of the coordinates that one ``vmap`` batches together.

Both are numbered among the axes that outer ``vmap`` leave. The second is None if the coordinates
are the same for the whole batch.
"""

PADDINGS = {"zeros": "constant", "border": "nearest"}
"""ONNX's names of paddings, and the modes of `map_coordinates` that they mean."""

MAX_TRIES = 24
"""Number of possible batchings of a call that are compared."""


@dataclass(frozen=True)
class SampleCall:
    """A call of a function that samples an image at coordinates, as it was matched.

    - `batch`: axes of the image that are batched together with an axis of the coordinates.
    - `coordinate_batch`: those axes of the coordinates, in the same order.
    - `channels`: the other batch axes of the image. The coordinates are the same for all of them.
    - `levels`: all batch axes of the image, in the order of the nested ``vmap``, the outermost
      first.
    - `order`: the axes of the call's result: first the axis for each axis in `levels`, then the
      axes of the points.
    - `padding`: "zeros" or "border", the values outside of the image.
    """

    batch: tuple[int, ...]
    coordinate_batch: tuple[int, ...]
    channels: tuple[int, ...]
    levels: tuple[int, ...]
    order: tuple[int, ...]
    padding: str


def _match_call(node: Node, editor: Editor, near_misses: list[NearMiss]) -> list[Value] | None:
    """Replace a call of ``_map_coordinates`` by ``sample_at`` and return the results of the call.

    Return None if the call is another function or has several results, if the image and both
    coordinates are not all float32, or if no batching and padding of JAX's function gives the same
    program.
    """
    if node.params["name"] != "_map_coordinates" or len(node.inputs) != 3:
        return None
    # Coordinates of a lower precision could be wrong by one pixel or more.
    if any(value.dtype != np.float32 for value in node.inputs) or len(node.outputs) != 1:
        return None
    call = match_sample_call(node)
    return None if call is None else call_results(node, _emit_sample_at(node, call, editor), editor)


def match_sample_call(node: Node) -> SampleCall | None:
    """Return how a call of ``_map_coordinates`` samples its image, or None if no trace equals the
    call.

    ``node`` has an image, its row coordinates and its column coordinates as operands. JAX's
    function is traced with each possible batching and padding, up to `MAX_TRIES` batchings. The
    result describes the first trace that is the same program as the call.
    """
    x, rows, columns = node.inputs
    pixels = _pixel_axes(node)
    if pixels is None or not dims.is_same_shape(rows.shape, columns.shape):
        return None
    shared, batched = pixels
    for levels, axes in islice(_yield_levels(x.shape, rows.shape, batched, shared), MAX_TRIES):
        for padding, mode in PADDINGS.items():
            vmaps = [(image, axis, axis) for image, axis in levels]
            order = call_order(node, vmap_axes(partial(_sample_image, mode=mode), vmaps))
            if order is not None:
                batch = tuple(image for image, axis in axes if axis is not None)
                coordinate_batch = tuple(axis for _, axis in axes if axis is not None)
                channels = tuple(image for image, axis in axes if axis is None)
                all_levels = tuple(image for image, _ in axes)
                return SampleCall(batch, coordinate_batch, channels, all_levels, order, padding)
    return None


def _sample_image(x: jax.Array, rows: jax.Array, columns: jax.Array, *, mode: str) -> jax.Array:
    """Sample an image [rows, columns] with bilinear interpolation. ``mode`` is the padding in JAX's
    terms."""
    return map_coordinates(x, [rows, columns], order=1, mode=mode)


def _pixel_axes(node: Node) -> tuple[set[int | None], list[int]] | None:
    """Return the batch axes that the image shares with the coordinates, and all batch axes of the
    image.

    They are read from the first gather of the image in the body of the call. They are only a guess,
    which `match_sample_call` proves by a trace. Return None if there is no such gather, or if it
    does not sample exactly two axes.
    """
    body = node.bodies["call"]
    image = body.inputs[0]
    for inner in body.nodes:
        if inner.op is not ops.gather:
            continue
        view, numbers = peeled_view(inner.inputs[0]), inner.params["dimension_numbers"]
        if view.base is not image or not view.has_full_axes:
            continue
        shared = {view.axes[axis] for axis in numbers.operand_batching_dims}
        pixels = {view.axes[axis] for axis in numbers.start_index_map} - shared
        batched = [axis for axis in range(image.rank) if axis not in pixels]
        return (shared, batched) if len(pixels) == 2 else None
    return None


def _yield_levels(
    shape: Shape, coordinate_shape: Shape, batched: Sequence[int], shared: set[int | None]
) -> Iterator[tuple[list[Level], list[Level]]]:
    """Yield the possible ways to batch these axes of the image by nested ``vmap``.

    Each way is a pair of lists with one entry for each ``vmap``, the outermost first. An entry is
    an axis of the image, and the axis of the coordinates that is batched with it or None. As in
    ``in_axes``, the first list counts only the axes that remain inside the outer ``vmap`` calls.
    The second list numbers all axes.

    **Arguments**

    - `shape`, `coordinate_shape`: shapes of the image and of each coordinate, with all axes.
    - `batched`: batch axes of the image.
    - `shared`: those of the batch axes that the coordinates also have.
    """
    for order in permutations(batched):
        for axes in _pair_axes(shape, coordinate_shape, order, shared, ()):
            levels = [
                (
                    image - sum(outer < image for outer, _ in axes[:number]),
                    None
                    if axis is None
                    else axis
                    - sum(outer is not None and outer < axis for _, outer in axes[:number]),
                )
                for number, (image, axis) in enumerate(axes)
            ]
            yield levels, axes


def _pair_axes(
    shape: Shape,
    coordinate_shape: Shape,
    order: Sequence[int],
    shared: set[int | None],
    used_axes: tuple[int, ...],
) -> Iterator[list[Level]]:
    """Yield every assignment of coordinate axes to the image axes in ``order``.

    An assignment is a list of pairs of an image axis and a coordinate axis or None. An axis of the
    image in ``shared`` is paired with a coordinate axis of the same size that is not in
    ``used_axes``. Any other axis is paired with None. An axis of size one is paired with both in
    turn, because a gather does not tell whether the coordinates share it.
    """
    if not order:
        yield []
        return
    image, *other_axes = order
    candidates = [
        i
        for i, d in enumerate(coordinate_shape)
        if i not in used_axes and dims.is_same_dim(d, shape[image])
    ]
    has_size_one = dims.is_same_dim(shape[image], 1)
    paired: list[int | None] = [*candidates] if image in shared or has_size_one else []
    if image not in shared or has_size_one:
        paired.append(None)
    for axis in paired:
        used = used_axes if axis is None else (*used_axes, axis)
        for pairs in _pair_axes(shape, coordinate_shape, other_axes, shared, used):
            yield [(image, axis), *pairs]


def _emit_sample_at(node: Node, call: SampleCall, editor: Editor) -> Value:
    """Emit ``sample_at`` for a matched call, and return its result with the axes of the call's
    result.

    The batch axes are merged into one before, and restored after.
    """
    x, *coordinates = node.inputs
    batched = (*call.batch, *call.channels)
    pixels = [axis for axis in range(x.rank) if axis not in batched]
    batch = [x.shape[axis] for axis in call.batch]
    channels = [x.shape[axis] for axis in call.channels]
    count = dims.size_product(batch)
    flat = (count, dims.size_product(channels), *(x.shape[axis] for axis in pixels))
    image = editor.reshape(editor.transpose(x, (*batched, *pixels)), flat)
    points = [axis for axis in range(coordinates[0].rank) if axis not in call.coordinate_batch]
    sizes = [coordinates[0].shape[axis] for axis in points]
    flat_coordinates = [
        editor.reshape(editor.transpose(v, (*call.coordinate_batch, *points)), (count, *sizes))
        for v in coordinates
    ]
    shape = (*flat[:2], *sizes)
    params = {"padding": call.padding}
    sampled = editor.add(ops.sample_at, [image, *flat_coordinates], shape, x.dtype, params)
    sampled = editor.reshape(sampled, (*batch, *channels, *sizes))
    # Transpose the axes from [batch, channels, points] to the order of the result.
    result_axes = [call.order[call.levels.index(axis)] for axis in batched]
    result_axes += call.order[len(batched) :]
    return editor.transpose(sampled, [result_axes.index(axis) for axis in range(len(result_axes))])


SAMPLE_CALL = Recogniser((ops.named_call,), _match_call)

# ---------------------------------------------------------------------------------- the operator


def grid_sample_recogniser(strict: bool) -> Recogniser:
    """Return the recogniser that lowers ``sample_at`` to GridSample or to gathers.

    It emits gathers if ``strict`` is True or the runtime has no GridSample for float32. GridSample
    returns a number for a coordinate that is NaN, and JAX returns NaN.
    """

    def match(node: Node, editor: Editor, near_misses: list[NearMiss]) -> Value:
        if strict or not editor.has_operator("GridSample", np.dtype(np.float32)):
            specs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in node.inputs]
            function = partial(formulas.sample_at, **node.params)
            return editor.inline(trace(function, specs), node.inputs)[0]
        return _grid_sample(node, editor)

    return Recogniser((ops.sample_at,), match)


class AffineCoordinate(NamedTuple):
    """A coordinate ``view * scale + shift``, which is -1 and 1 at the edges of the image.

    If ``scale`` is zero, ``view`` is the coordinate in pixels, and the image has a named size. The
    coordinate from -1 to 1 is then computed from that size at run time.
    """

    view: View
    scale: float
    shift: float


def _grid_sample(node: Node, editor: Editor) -> Value:
    """Emit GridSample for a node ``sample_at``, and return a value of the node's shape.

    The two coordinates are combined into one grid [batch, ..., 2] with numbers from -1 to 1. If the
    coordinates are neighbouring slices of an array, the grid is a slice of that array. Otherwise
    they are concatenated.
    """
    image, rows, columns = node.inputs
    (height, width), dtype = image.shape[2:], node.out.dtype
    axes = [i for i, d in enumerate(rows.shape) if i or not dims.is_same_dim(d, 1)]
    sizes = tuple(rows.shape[i] for i in axes)
    coordinates = [
        _as_affine(look_through(view_of(pixels), reach="parts").select_axes(axes), size)
        for pixels, size in ((columns, width), (rows, height))
    ]
    pair = (
        _join_neighbours([coordinate.view for coordinate in coordinates])
        if coordinates[0].scale and coordinates[1].scale
        else None
    )
    if pair is not None:
        grid = emit_view(editor, pair, (*sizes, 2), dtype)
    else:
        parts = []
        for coordinate, size in zip(coordinates, (width, height), strict=True):
            value = emit_view(editor, coordinate.view, sizes, dtype)
            value = value if coordinate.scale else _emit_normalised(editor, value, size)
            parts.append(editor.reshape(value, (*sizes, 1)))
        grid = editor.concatenate(parts, len(sizes))
    scales = [coordinate.scale or 1.0 for coordinate in coordinates]
    shifts = [coordinate.shift for coordinate in coordinates]
    grid = _emit_affine(editor, grid, scales, shifts)
    if node.params["padding"] == "border":
        # Runtimes compute wrong weights for coordinates that are very far outside of the image.
        for op, end in ((ops.max, -2.0), (ops.min, 2.0)):
            grid = editor.binary(op, grid, const(end, dtype))
    points = rows.shape[1:]
    flat = (rows.shape[0], dims.size_product(points[:-1]), points[-1] if points else 1, 2)
    grid = editor.reshape(grid, flat)
    shape = (*image.shape[:2], *flat[1:3])
    sampled = editor.add(ops.grid_sample, [image, grid], shape, dtype, node.params)
    return editor.reshape(sampled, node.out.shape)


def _join_neighbours(views: Sequence[View]) -> View | None:
    """Join two views that are the entries i and i + 1 of one axis of the same base, in this order.

    Return the view of both with a new last axis of size two, or None if they are no such
    neighbours.
    """
    first, second = views
    if first.base is not second.base or first.groups != second.groups:
        return None
    differing_axes = [
        axis
        for axis, pair in enumerate(zip(first.starts, second.starts, strict=True))
        if not dims.is_same_dim(*pair)
    ]
    steps = [dims.as_dim(second.starts[axis] - first.starts[axis]) for axis in differing_axes]
    if steps != [1]:
        return None
    return View(first.base, (*first.groups, (Factor(differing_axes[0], 1, 2),)), first.starts)


def _as_affine(pixels: View, size: Dim) -> AffineCoordinate:
    """Return a pixel coordinate as ``view * scale + shift``, scaled to -1 to 1 for an image of this
    size.

    A product with a number or named size, and a sum with a number, are moved into scale and shift.
    Example for a static size: ``y * 7 - 0.5`` becomes ``y`` with scale ``14 / size`` and shift
    ``-1``. For a named size only ``y * size - 0.5`` is taken apart, with scale 2 and shift -1. For
    any other coordinate the scale is zero then (see `AffineCoordinate`).
    """
    view, shift = pixels, 0.0
    factor: float | Dim = 1.0
    if view.op() in (ops.add, ops.sub):
        sign = 1.0 if view.op() is ops.add else -1.0
        first, second = (look_through(view.operand(index), reach="parts") for index in (0, 1))
        if (number := scalar(second.base)) is not None:
            view, shift = first, sign * float(number)
        elif view.op() is ops.add and (number := scalar(first.base)) is not None:
            view, shift = second, float(number)
    if view.op() is ops.mul:
        pair = [look_through(view.operand(index), reach="parts") for index in (0, 1)]
        for factor_view, number_view in (pair, pair[::-1]):
            number = scalar(number_view.base)
            constant = named_size(number_view.base) if number is None else number
            if constant is not None:
                view, factor = factor_view, constant
                break
    if dims.is_static(size):
        if dims.is_static(factor) or isinstance(factor, float):
            return AffineCoordinate(view, 2 * float(factor) / size, (2 * shift + 1) / size - 1)
        return AffineCoordinate(pixels, 2 / size, 1 / size - 1)
    if not isinstance(factor, float) and dims.is_same_dim(factor, size) and shift == -0.5:
        return AffineCoordinate(view, 2.0, -1.0)
    return AffineCoordinate(pixels, 0.0, 0.0)


def _emit_normalised(editor: Editor, value: Value, size: Dim) -> Value:
    """Emit ``(2 * value + 1) / size - 1`` for a named size."""
    number = editor.add(ops.dim_as_value, [], (), np.dtype(np.int64), {"dim": size})
    doubled = _emit_affine(editor, value, [2.0], [1.0])
    share = editor.binary(ops.div, doubled, editor.convert(number, value.dtype))
    return editor.binary(ops.sub, share, const(1.0, value.dtype))


def _emit_affine(
    editor: Editor, value: Value, scales: Sequence[float], shifts: Sequence[float]
) -> Value:
    """Emit ``value * scales + shifts``, with the numbers along the last axis."""
    for op, numbers, neutral in ((ops.mul, scales, 1.0), (ops.add, shifts, 0.0)):
        if all(number == neutral for number in numbers):
            continue
        is_uniform = len({*numbers}) == 1
        array = const(numbers[0] if is_uniform else np.asarray(numbers), value.dtype)
        value = editor.binary(op, value, array)
    return value
