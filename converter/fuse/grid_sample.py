"""Calls of ``jax.scipy.ndimage.map_coordinates`` of order 1 as ONNX's ``GridSample``.

``SAMPLE_CALL`` matches a call on the traced graph: its batch axes, and the padding outside of the
image, zeros or the image's edge. ``grid_sample_recogniser`` then emits the operator, with
coordinates from -1 to 1. Sampling that a user writes with gathers and products is not matched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, islice, permutations
from typing import Any, NamedTuple, TypeAlias

import jax
import numpy as np
from jax.scipy.ndimage import map_coordinates

from converter.frontend.trace import source_line, trace
from converter.fuse.match import NearMiss, Recogniser, peeled_view
from converter.fuse.named_calls import call_order, call_results, vmap_axes
from converter.ir import Node, Value, const, dims, formulas, ops
from converter.ir.axes import Factor, View, view_of
from converter.ir.dims import Dim, Shape
from converter.ir.moves import emit_view, look_through
from converter.ir.rewrite import Editor
from converter.ir.scalars import named_size, scalar

# -------------------------------------------------------------------------------------- the call

Level: TypeAlias = tuple[int | None, int | None]
"""An axis of the image and the axis of the coordinates that one ``vmap`` batches together.

One of them is None if the image, or the coordinates, are the same for the whole batch.
"""

PADDINGS = {"zeros": "constant", "border": "nearest"}
"""ONNX's names of paddings, and the modes of `map_coordinates` that they mean."""

MAX_TRIES = 40
"""Number of possible batchings of a call that are compared."""

MAX_POINT_LEVELS = 2
"""Number of nested ``vmap`` over the coordinates alone that are tried."""


@dataclass(frozen=True)
class SampleCall:
    """A call of a function that samples an image at coordinates, as it was matched.

    - `levels`: the batch axes of each nested ``vmap``, the outermost first.
    - `order`: the axes of the call's result: first the axis for each of `levels`, then the axes of
      the points that are in no level.
    - `padding`: "zeros" or "border", the values outside of the image.
    """

    levels: tuple[Level, ...]
    order: tuple[int, ...]
    padding: str

    @property
    def batch(self) -> list[tuple[int, int]]:
        """Axes of the image that are batched together with an axis of the coordinates, each with
        that axis."""
        return [(i, axis) for i, axis in self.levels if i is not None and axis is not None]

    @property
    def channels(self) -> list[int]:
        """Batch axes of the image for which the coordinates are all the same."""
        return [i for i, axis in self.levels if i is not None and axis is None]


def _match_call(node: Node, editor: Editor, near_misses: list[NearMiss]) -> list[Value] | None:
    """Replace a call of ``_map_coordinates`` by ``sample_at`` and return the results of the call.

    Return None if it is a call of another function: one of another name, without one or two
    operands of coordinates, with several results, or that gathers no elements of its first operand.
    Return None and add a near miss if the operands are not all float32, or if `match_sample_call`
    does not match the call.
    """
    has_name = node.params["name"] == "_map_coordinates"
    has_operands = len(node.inputs) in (2, 3) and len(node.outputs) == 1
    if not (has_name and has_operands and any(_gathers_of_image(node))):
        return None
    # Coordinates of a lower precision could be wrong by one pixel or more.
    is_float32 = all(value.dtype == np.float32 for value in node.inputs)
    call = match_sample_call(node) if is_float32 else None
    if call is None:
        reason = UNMATCHED if is_float32 else "the image and the coordinates are not all float32"
        # Without points nothing is sampled.
        if 0 not in node.out.shape:
            near_misses.append(NearMiss("GridSample", reason, source_line(node)))
        return None
    return call_results(node, _emit_sample_at(node, call, editor), editor)


UNMATCHED = (
    "the call of map_coordinates is not the linear sampling of two axes at several points, with "
    "zeros or the nearest edge outside of the image, under any of the nested vmap that are tried"
)
"""Reason for the report why a call of ``_map_coordinates`` is no GridSample."""


def match_sample_call(node: Node) -> SampleCall | None:
    """Return how a call of ``_map_coordinates`` samples its image, or None if no trace equals the
    call.

    ``node`` has an image and its coordinates as operands. The coordinates are two arrays, of rows
    and of columns, or one array of both. JAX's function is traced with each possible batching and
    padding, up to `MAX_TRIES` batchings. The result describes the first trace that is the same
    program as the call.
    """
    x, *coordinates = node.inputs
    pixels, shape = _pixel_axes(node), coordinates[0].shape
    # Other paddings than those of GridSample compute the pixels with remainders.
    has_remainders = any(inner.op is ops.rem for inner in node.bodies["call"].nodes)
    has_same_shapes = all(dims.is_same_shape(v.shape, shape) for v in coordinates)
    if pixels is None or has_remainders or not has_same_shapes:
        return None
    shared, batched = pixels
    for levels in islice(_yield_levels(x.shape, shape, batched, shared), MAX_TRIES):
        vmaps = [(image, *[axis] * len(coordinates)) for image, axis in _as_in_axes(levels)]
        for padding, mode in PADDINGS.items():
            order = call_order(node, vmap_axes(partial(_sample_image, mode=mode), vmaps))
            if order is not None:
                return SampleCall(levels, order, padding)
    return None


def _sample_image(x: jax.Array, *coordinates: jax.Array, mode: str) -> jax.Array:
    """Sample an image [rows, columns] with bilinear interpolation.

    The coordinates are two arrays, of rows and of columns, or one array of both along its first
    axis. ``mode`` is the padding in JAX's terms.
    """
    both: Any = coordinates if len(coordinates) == 2 else coordinates[0]
    return map_coordinates(x, both, order=1, mode=mode)


def _gathers_of_image(node: Node) -> Iterator[tuple[View, Node]]:
    """Yield the gathers in the body of a call that read its image, each with the view of the image
    that it reads."""
    body = node.bodies["call"]
    for inner in body.nodes:
        if inner.op is ops.gather:
            view = peeled_view(inner.inputs[0])
            if view.base is body.inputs[0] and view.has_full_axes:
                yield view, inner


def _pixel_axes(node: Node) -> tuple[set[int | None], list[int]] | None:
    """Return the batch axes that the image shares with the coordinates, and all batch axes of the
    image.

    They are read from the first gather of the image in the body of the call. They are only a guess,
    which `match_sample_call` proves by a trace. Return None if the body does not gather four
    neighbours, or if they do not lie along exactly two axes.
    """
    gathers = list(_gathers_of_image(node))
    if len(gathers) != 4:
        return None
    view, gather = gathers[0]
    numbers = gather.params["dimension_numbers"]
    shared = {view.axes[axis] for axis in numbers.operand_batching_dims}
    pixels = {view.axes[axis] for axis in numbers.start_index_map} - shared
    batched = [axis for axis in range(node.inputs[0].rank) if axis not in pixels]
    return (shared, batched) if len(pixels) == 2 else None


def _yield_levels(
    shape: Shape, coordinate_shape: Shape, batched: Sequence[int], shared: set[int | None]
) -> Iterator[tuple[Level, ...]]:
    """Yield the possible ways to batch these axes of the image by nested ``vmap``.

    Each way has a level for each ``vmap``, the outermost first. Up to `MAX_POINT_LEVELS` further
    levels batch axes of the coordinates alone. Ways with fewer of them are yielded first.

    **Arguments**

    - `shape`, `coordinate_shape`: shapes of the image and of each operand of coordinates, with all
      axes.
    - `batched`: batch axes of the image.
    - `shared`: those of the batch axes that the coordinates also have.
    """
    for count in range(MAX_POINT_LEVELS + 1):
        for order in permutations(batched):
            for levels in _pair_axes(shape, coordinate_shape, order, shared, ()):
                used = {axis for _, axis in levels}
                unused = [i for i in range(len(coordinate_shape)) if i not in used]
                for axes in permutations(unused, count):
                    yield from _interleave([(None, axis) for axis in axes], levels)


def _interleave(first: Sequence[Level], second: Sequence[Level]) -> Iterator[tuple[Level, ...]]:
    """Yield every sequence of all levels that keeps the order of the levels of each argument."""
    size = len(first) + len(second)
    for positions in combinations(range(size), len(first)):
        remaining_first, remaining_second = iter(first), iter(second)
        yield tuple(
            next(remaining_first if i in positions else remaining_second) for i in range(size)
        )


def _as_in_axes(levels: Sequence[Level]) -> Iterator[Level]:
    """Yield the axes of levels as numbers among the axes that the outer levels leave, as
    ``jax.vmap`` counts them."""
    image_axes, coordinate_axes = zip(*levels, strict=True) if levels else ((), ())
    yield from zip(_inner_axes(image_axes), _inner_axes(coordinate_axes), strict=True)


def _inner_axes(axes: Sequence[int | None]) -> Iterator[int | None]:
    """Yield each axis as its number among the axes that the earlier ones leave; None stays None."""
    for number, axis in enumerate(axes):
        outer = [other for other in axes[:number] if other is not None]
        yield None if axis is None else axis - sum(other < axis for other in outer)


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

    The axes of ``SampleCall.batch`` are merged into one before, those of ``SampleCall.channels``
    into another one, and both are restored after.
    """
    x = node.inputs[0]
    batched = [*(image_axis for image_axis, _ in call.batch), *call.channels]
    pixels = [axis for axis in range(x.rank) if axis not in batched]
    batch_sizes = [x.shape[axis] for axis in batched]
    count = dims.size_product(batch_sizes[: len(call.batch)])
    flat = (count, dims.size_product(batch_sizes[len(call.batch) :]))
    image = editor.transpose(x, (*batched, *pixels))
    image = editor.reshape(image, (*flat, *(x.shape[axis] for axis in pixels)))
    points, coordinates = _split_coordinates(node, call, editor)
    sizes = coordinates[0].shape[len(call.batch) :]
    coordinates = [editor.reshape(v, (count, *sizes)) for v in coordinates]
    params = {"padding": call.padding}
    sampled = editor.add(ops.sample_at, [image, *coordinates], (*flat, *sizes), x.dtype, params)
    sampled = editor.reshape(sampled, (*batch_sizes, *sizes))
    # Transpose the axes from [batch, channels, points] to the order of the result.
    levels = dict(zip(call.levels, call.order, strict=False))
    by_image_axis = {image_axis: axis for (image_axis, _), axis in levels.items()}
    other_axes = iter(call.order[len(call.levels) :])
    result_axes = [by_image_axis[axis] for axis in batched]
    result_axes += [
        levels[None, axis] if (None, axis) in levels else next(other_axes) for axis in points
    ]
    return editor.transpose(sampled, [result_axes.index(axis) for axis in range(len(result_axes))])


def _split_coordinates(
    node: Node, call: SampleCall, editor: Editor
) -> tuple[list[int], list[Value]]:
    """Return the axes of the points, and the rows and the columns as arrays [batch…, points…].

    The axes are numbered as in the operands of the call. If one operand has the rows and the
    columns, they are along its first axis that is in no level.
    """
    coordinates = node.inputs[1:]
    batch = [axis for _, axis in call.batch]
    points = [axis for axis in range(coordinates[0].rank) if axis not in batch]
    if len(coordinates) == 2:
        return points, [editor.transpose(v, (*batch, *points)) for v in coordinates]
    pair = next(axis for axis in points if (None, axis) not in call.levels)
    points.remove(pair)
    both = editor.transpose(coordinates[0], (pair, *batch, *points))
    halves = [editor.slice(both, 0, i, i + 1) for i in range(2)]
    return points, [editor.reshape(half, both.shape[1:]) for half in halves]


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
