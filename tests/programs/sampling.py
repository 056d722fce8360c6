"""Bilinear sampling by `map_coordinates`, bilinear sampling written by hand, and functions that
only resemble it."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates

from tests.conformance import DEFAULT, SAMPLES, Case

CHW, HWC = (3, 5, 7), (5, 7, 3)
POINTS = (11, 2)


def at(points):
    """Return rows and columns for points around zero, some of which are outside of the image."""
    return 2 + 2 * points[..., 0], 3 + 3 * points[..., 1]


def coordinates(x, points, mode="constant"):
    """Sample every channel with ``map_coordinates``."""
    return jax.vmap(lambda c: map_coordinates(c, at(points), order=1, mode=mode))(x)


def shares(x, points):
    """Sample at coordinates from 0 to 1 between the edges, as deformable attention does."""
    scaled = jax.nn.sigmoid(points) * 1.5 - 0.25
    positions = scaled[..., 1] * x.shape[1] - 0.5, scaled[..., 0] * x.shape[2] - 0.5
    return jax.vmap(lambda c: map_coordinates(c, positions, order=1))(x)


def around(points):
    """Return positions, the indices before them, and the remainders."""
    row, column = at(points)
    top, left = (jnp.floor(position).astype(jnp.int32) for position in (row, column))
    return row, column, top, left, row - top, column - left


def clipped(x, row, column):
    """Return pixels [points, channels] of an image [rows, columns, channels], or the pixels at its
    edge."""
    rows, columns = jnp.clip(row, 0, x.shape[0] - 1), jnp.clip(column, 0, x.shape[1] - 1)
    return x[rows, columns]


def masked(x, row, column):
    """Return pixels, or zero outside."""
    inside = (row >= 0) & (row < x.shape[0]) & (column >= 0) & (column < x.shape[1])
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def multiplied(x, row, column):
    """Return pixels times a mask."""
    inside = (row >= 0) & (row <= x.shape[0] - 1) & (column > -1) & (column <= x.shape[1] - 1)
    return clipped(x, row, column) * inside[:, None].astype(x.dtype)


def flat(x, row, column):
    """Return pixels of an image whose rows are flattened into one axis."""
    rows, columns = jnp.clip(row, 0, x.shape[0] - 1), jnp.clip(column, 0, x.shape[1] - 1)
    return jnp.take(x.reshape(-1, x.shape[2]), rows * x.shape[1] + columns, axis=0)


def four(x, points, tap=clipped):
    """Return the weighted sum of four neighbours."""
    _, _, top, left, b, a = around(points)
    b, a = b[:, None], a[:, None]
    return (
        tap(x, top, left) * (1 - b) * (1 - a)
        + tap(x, top, left + 1) * (1 - b) * a
        + tap(x, top + 1, left) * b * (1 - a)
        + tap(x, top + 1, left + 1) * b * a
    )


def by_next(x, points, tap=masked):
    """Return the sum of four neighbours, weighted by the distance to the opposite neighbour."""
    row, column, top, left, _, _ = around(points)
    bottom, right = top + 1, left + 1
    areas = (
        (bottom - row) * (right - column),
        (bottom - row) * (column - left),
        (row - top) * (right - column),
        (row - top) * (column - left),
    )
    corners = ((top, left), (top, right), (bottom, left), (bottom, right))
    terms = [w[:, None] * tap(x, *corner) for w, corner in zip(areas, corners, strict=True)]
    return terms[0] + (terms[1] + terms[2]) + terms[3]


def lerped(x, points, tap=clipped):
    """Interpolate between columns, and then between rows."""
    _, _, top, left, b, a = around(points)
    b, a = b[:, None], a[:, None]
    above = tap(x, top, left) + a * (tap(x, top, left + 1) - tap(x, top, left))
    below = tap(x, top + 1, left) * (1 - a) + a * tap(x, top + 1, left + 1)
    return above * (1 - b) + below * b


def mixed(tap, top, left, b, a, step=1):
    """Interpolate between columns, and then between rows, with these weights."""
    above = tap(top, left) * (1 - a) + tap(top, left + step) * a
    below = tap(top + 1, left) * (1 - a) + tap(top + 1, left + step) * a
    return above * (1 - b) + b * below


def warped(x, points):
    """Sample on a grid with shifted rows and columns."""
    rows = jnp.arange(4.0)[:, None] + points[:4, :1]
    columns = jnp.arange(6.0)[None] - points[:1, 1:]
    positions = jnp.broadcast_arrays(rows, columns)
    return jax.vmap(lambda c: map_coordinates(c, positions, order=1, mode="nearest"))(x)


def by_channels(x, points):
    """Sample an image whose channels are the last axis."""
    sample = jax.vmap(lambda c: map_coordinates(c, at(points), order=1), in_axes=2, out_axes=1)
    return sample(x)


def each_image(x, points):
    """Sample several images at different positions, which are batched along another axis."""
    points_of_images = jnp.moveaxis(points, 0, 1)
    return jax.vmap(coordinates, in_axes=(0, 1))(x, points_of_images)


SPELLED = {
    "coordinates": (coordinates, (CHW, POINTS)),
    "nearest": (partial(coordinates, mode="nearest"), (CHW, POINTS)),
    "shares": (shares, (CHW, (4, 3, 2))),
    "channels last": (by_channels, (HWC, POINTS)),
    "each image": (each_image, ((2, *CHW), (2, *POINTS))),
    "heads": (jax.vmap(shares), ((2, *CHW), (2, 4, 3, 2))),
    "warped": (warped, (CHW, POINTS)),
}


# --------------------------------------------------------------------------------- look-alikes


def half_masked(x, row, column):
    """Return pixels, or zero on two sides only."""
    inside = (row >= 0) & (column >= 0)
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def strictly_masked(x, row, column):
    """Return pixels, or zero outside and at the last row and column."""
    inside = (row >= 0) & (row < x.shape[0] - 1) & (column >= 0) & (column < x.shape[1] - 1)
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def from_the_end(x, row, column):
    """Return pixels, with negative indices counted from the end."""
    rows, columns = (jnp.clip(i, -n, n - 1) for i, n in zip((row, column), x.shape, strict=False))
    return x[rows, columns]


def ones_outside(x, row, column):
    inside = (row >= 0) & (row < x.shape[0]) & (column >= 0) & (column < x.shape[1])
    return jnp.where(inside[:, None], clipped(x, row, column), 1)


def truncated(x, points):
    """Sample with indices that are rounded towards zero, which differ below zero."""
    row, column = at(points)
    top, left = row.astype(jnp.int32), column.astype(jnp.int32)
    return mixed(partial(clipped, x), top, left, (row - top)[:, None], (column - left)[:, None])


def clipped_weights(x, points):
    """Sample with weights of clipped indices. Outside of the image both neighbours are one pixel,
    so their weights sum to one at any size. No rule proves that."""
    row, column, top, left, _, _ = around(points)
    b = (row - jnp.clip(top, 0, x.shape[0] - 1))[:, None]
    a = (column - jnp.clip(left, 0, x.shape[1] - 1))[:, None]
    return mixed(partial(clipped, x), top, left, b, a)


def smoothed(x, points):
    """Sample with weights that are a cubic function of the remainder."""
    _, _, top, left, b, a = around(points)
    b, a = ((s * s * (3 - 2 * s))[:, None] for s in (b, a))
    return mixed(partial(clipped, x), top, left, b, a)


def exchanged(x, points):
    """Sample with the weights of rows for columns, and the reverse."""
    _, _, top, left, b, a = around(points)
    return mixed(partial(clipped, x), top, left, a[:, None], b[:, None])


def two_pixels_apart(x, points):
    """Sample with neighbours that are two pixels apart."""
    _, _, top, left, b, a = around(points)
    return mixed(partial(clipped, x), top, left, b[:, None], a[:, None], 2)


def of_scipy(x, points, **options):
    return map_coordinates(x[..., 0], at(points), order=1, **options)


BY_HAND = {
    "four": four,
    "masked": partial(four, tap=masked),
    "multiplied": partial(four, tap=multiplied),
    "flat": partial(four, tap=flat),
    "by next": by_next,
    "lerped": lerped,
}
"""Correct sampling of an image of shape ``HWC`` by gathers, which is not fused."""

LOOK_ALIKES = {
    **BY_HAND,
    "half masked": partial(four, tap=half_masked),
    "strictly masked": partial(four, tap=strictly_masked),
    "from the end": partial(four, tap=from_the_end),
    "ones outside": partial(four, tap=ones_outside),
    "truncated": truncated,
    "clipped weights": clipped_weights,
    "smoothed": smoothed,
    "exchanged": exchanged,
    "apart": two_pixels_apart,
    "mirrored": partial(of_scipy, mode="mirror"),
    "reflected": partial(of_scipy, mode="reflect"),
    "wrapped": partial(of_scipy, mode="wrap"),
    "filled": partial(of_scipy, cval=0.5),
}
"""Functions of an image of shape ``HWC`` of which none becomes a ``GridSample``."""


# ------------------------------------------------------------------------------------- programs

RNG = np.random.default_rng(0)
FUSED, GATHERED = {"GridSample": 1}, {"GridSample": 0}
PICTURE = RNG.normal(size=CHW).astype(np.float32)
FAR = np.array(
    [[0, 1e6], [-1e9, 0.25], [1e9, -1e9], [-0.5, -1], [1, 1], [0.9999, 4 / 3]], np.float32
)
"""Points far outside of the image, and at its edges. ONNX Runtime returns zero where its weights
lose all digits, even at the pixels of the edge."""


def sampled_at_pixels(x, points):
    """Sample at points that are an input, as columns and rows in pixels."""
    rows_and_columns = points[:, 1], points[:, 0]
    return jax.vmap(lambda c: map_coordinates(c, rows_and_columns, order=1, mode="nearest"))(x)


def of_points(x, rows, columns, **options):
    return map_coordinates(x, [rows, columns], **{"order": 1, **options})


def batched(mode: str, image_axis: int, point_axis: int | None) -> Case:
    """Return a vmapped sampling, with points for each image or the same for all images."""
    fn = jax.vmap(partial(of_points, mode=mode), (image_axis, point_axis, point_axis), 1)
    x = np.moveaxis(RNG.normal(size=(4, 5, 7)), 0, image_axis).astype(np.float32)
    points = RNG.uniform(-1, 8, (2, 6) if point_axis is None else (2, 4, 4)).astype(np.float32)
    is_default = (image_axis, point_axis) in ((0, 0), (1, 1), (2, None))
    return Case(f"vmap {image_axis} {point_axis} {mode}", fn, (x, *points), ops=FUSED,
                tolerance=0.25, tags=DEFAULT if is_default else frozenset())  # fmt: skip


VMAPS = {
    "points": ((None, 0),),
    "points along axis 1, twice": ((None, 1), (None, 1)),
    "channels of points": ((None, 0), (-1, None)),
    "points of channels": ((1, None), (None, 0)),
    "images, points, channels": ((0, 0), (None, -1), (0, None)),
}
"""Axes of the image and of the coordinates that nested ``vmap`` batch, the outermost first."""


def of_vmaps(name: str, is_one_array: bool) -> Case:
    """Return a sampling under nested ``vmap``, at coordinates in two arrays or in one."""
    axes = VMAPS[name]
    fn = partial(of_points, mode="nearest")
    if is_one_array:
        fn = partial(map_coordinates, order=1, mode="nearest")
    shape, point_shape = [5, 7], [2, 6] if is_one_array else [6]
    for image_axis, point_axis in reversed(axes):
        operands = [point_axis] if is_one_array else [point_axis, point_axis]
        fn = jax.vmap(fn, (image_axis, *operands))
        for sizes, axis in ((shape, image_axis), (point_shape, point_axis)):
            if axis is not None:
                sizes.insert(axis % (len(sizes) + 1), 3)
    image = RNG.normal(size=shape).astype(np.float32)
    count = 1 if is_one_array else 2
    points = [RNG.uniform(-1, 8, point_shape).astype(np.float32) for _ in range(count)]
    form = "one array" if is_one_array else "two arrays"
    return Case(f"vmap of {name}, {form}", fn, (image, *points), ops=FUSED, tolerance=0.25,
                tags=DEFAULT)  # fmt: skip


def of_all_points(images, rows, columns):
    """Sample each image at its own points, one image in each step of a map."""
    sample = jax.vmap(partial(of_points, mode="nearest"), (0, None, None))
    return lax.map(lambda operands: sample(*operands), (images, rows, columns))


def of_the_same_points(images, rows, columns):
    """Sample each image at the same points, one image in each step of a map."""
    return lax.map(lambda image: of_points(image, rows[0], columns[0]), images[:, 0])


def of_the_same_image(images, rows, columns):
    """Sample one image at other points in each step of a map."""
    return lax.map(lambda points: of_points(images[0, 0], *points), (rows, columns))


def of_a_point_each(images, rows, columns):
    """Sample four images at one point each, at other points in each step of a map."""
    sample = jax.vmap(partial(of_points, mode="nearest"))
    return lax.map(lambda points: sample(images[:, 0], *points), (rows.T, columns.T))


IN_MAPS = {
    "each at one": of_a_point_each,
    "each at its own": of_all_points,
    "each at the same": of_the_same_points,
    "one at all": of_the_same_image,
}
MANY_PICTURES = RNG.normal(size=(4, 2, 5, 7)).astype(np.float32)
MANY_ROWS, MANY_COLUMNS = RNG.uniform(-1, 8, (2, 4, 6)).astype(np.float32)
OPEN_SIZES = (("H", "W"), ("H", 7), (5, "W"))
OPEN = {"coordinates": coordinates, "shares": shares, "pixels": sampled_at_pixels}
WITHOUT_OPERATOR: dict[str, dict[str, Any]] = {
    "wrap": {"mode": "wrap"},
    "filled with 1": {"mode": "constant", "cval": 1.0},
    "order 0": {"mode": "nearest", "order": 0},
}
ROWS_AND_COLUMNS = np.float32([0.2, 4.7, -1.3]), np.float32([6.4, -0.6, 2.0])


def open_sizes() -> Iterator[Case]:
    """Yield samplings of an image with named sides, at points in pixels or in shares of a side."""
    for name, fn in OPEN.items():
        for sides in OPEN_SIZES:
            yield Case(f"{name} of {sides}", fn, ((3, *sides), POINTS), ops=FUSED, tolerance=0.5,
                       tags=DEFAULT | {SAMPLES})  # fmt: skip


PROGRAMS = [
    *(Case(f"far points, {mode}", partial(coordinates, mode=mode), (PICTURE, FAR), (18,), FUSED,
           tolerance=0.25, tags=DEFAULT) for mode in ("constant", "nearest")),
    Case("points of NaN", partial(coordinates, mode="nearest"),
         (PICTURE, np.full(POINTS, np.nan, np.float32)), ops=GATHERED, strict=True, tags=DEFAULT),
    *open_sizes(),
    *(batched(mode, image_axis, point_axis) for mode in ("constant", "nearest")
      for image_axis in (0, 1, 2) for point_axis in (None, 0, 1)),
    *(Case(name, partial(of_points, **options), (PICTURE[0], *ROWS_AND_COLUMNS), ops=GATHERED,
           tolerance=0.25, said="is not the linear sampling", tags=DEFAULT)
      for name, options in WITHOUT_OPERATOR.items()),
    Case("half precision", of_points, [(shape, np.float16) for shape in ((5, 7), (3,), (3,))],
         ops=GATHERED, tolerance=2, said="not all float32", tags=DEFAULT),
    *(of_vmaps(name, is_one_array) for name in VMAPS for is_one_array in (False, True)),
    # The coordinates are not repeated for each step.
    Case("points in a map, each at the same, strict", of_the_same_points,
         (MANY_PICTURES, MANY_ROWS, MANY_COLUMNS), ops={**GATHERED, "Expand": 0, "Floor": 2},
         tolerance=0.25, strict=True, tags=DEFAULT),
    *(Case(f"points in a map, {name}", fn, (MANY_PICTURES, MANY_ROWS, MANY_COLUMNS), ops=FUSED,
           tolerance=0.25, tags=DEFAULT) for name, fn in IN_MAPS.items()),
]  # fmt: skip
