"""Bilinear sampling by JAX's function, by hand, and what only looks like it."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.scipy.ndimage import map_coordinates

CHW, HWC = (3, 5, 7), (5, 7, 3)
POINTS = (11, 2)


def at(points):
    """Rows and columns: of numbers around zero some within the image and some beyond it."""
    return 2 + 2 * points[..., 0], 3 + 3 * points[..., 1]


def coordinates(x, points, mode="constant"):
    """``map_coordinates`` of every channel."""
    return jax.vmap(lambda c: map_coordinates(c, at(points), order=1, mode=mode))(x)


def shares(x, points):
    """At places from 0 to 1, from edge to edge, as deformable attention has them."""
    places = jax.nn.sigmoid(points) * 1.5 - 0.25
    where = places[..., 1] * x.shape[1] - 0.5, places[..., 0] * x.shape[2] - 0.5
    return jax.vmap(lambda c: map_coordinates(c, where, order=1))(x)


def around(points):
    """Places, indices before them, and what is left."""
    row, column = at(points)
    top, left = (jnp.floor(each).astype(jnp.int32) for each in (row, column))
    return row, column, top, left, row - top, column - left


def clipped(x, row, column):
    """A pixel, or that at the edge: [points, channels] of [rows, columns, channels]."""
    rows, columns = jnp.clip(row, 0, x.shape[0] - 1), jnp.clip(column, 0, x.shape[1] - 1)
    return x[rows, columns]


def masked(x, row, column):
    """A pixel, or zero."""
    inside = (row >= 0) & (row < x.shape[0]) & (column >= 0) & (column < x.shape[1])
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def multiplied(x, row, column):
    """A pixel times a mask."""
    inside = (row >= 0) & (row <= x.shape[0] - 1) & (column > -1) & (column <= x.shape[1] - 1)
    return clipped(x, row, column) * inside[:, None].astype(x.dtype)


def flat(x, row, column):
    """A pixel of rows that lie one behind another."""
    rows, columns = jnp.clip(row, 0, x.shape[0] - 1), jnp.clip(column, 0, x.shape[1] - 1)
    return jnp.take(x.reshape(-1, x.shape[2]), rows * x.shape[1] + columns, axis=0)


def four(x, points, tap=clipped):
    """The sum of four neighbours by their weights."""
    _, _, top, left, b, a = around(points)
    b, a = b[:, None], a[:, None]
    return (
        tap(x, top, left) * (1 - b) * (1 - a)
        + tap(x, top, left + 1) * (1 - b) * a
        + tap(x, top + 1, left) * b * (1 - a)
        + tap(x, top + 1, left + 1) * b * a
    )


def by_next(x, points, tap=masked):
    """With weights that are the distance to the neighbour across."""
    row, column, top, left, _, _ = around(points)
    bottom, right = top + 1, left + 1
    areas = (
        (bottom - row) * (right - column),
        (bottom - row) * (column - left),
        (row - top) * (right - column),
        (row - top) * (column - left),
    )
    corners = ((top, left), (top, right), (bottom, left), (bottom, right))
    terms = [w[:, None] * tap(x, *where) for w, where in zip(areas, corners, strict=True)]
    return terms[0] + (terms[1] + terms[2]) + terms[3]


def lerped(x, points, tap=clipped):
    """Between columns, and then between rows."""
    _, _, top, left, b, a = around(points)
    b, a = b[:, None], a[:, None]
    above = tap(x, top, left) + a * (tap(x, top, left + 1) - tap(x, top, left))
    below = tap(x, top + 1, left) * (1 - a) + a * tap(x, top + 1, left + 1)
    return above * (1 - b) + below * b


def mixed(tap, top, left, b, a, step=1):
    """Between columns, and then between rows, by these weights."""
    above = tap(top, left) * (1 - a) + tap(top, left + step) * a
    below = tap(top + 1, left) * (1 - a) + tap(top + 1, left + step) * a
    return above * (1 - b) + b * below


def warped(x, points):
    """On a grid, rows and columns of which are shifted."""
    rows = jnp.arange(4.0)[:, None] + points[:4, :1]
    columns = jnp.arange(6.0)[None] - points[:1, 1:]
    where = jnp.broadcast_arrays(rows, columns)
    return jax.vmap(lambda c: map_coordinates(c, where, order=1, mode="nearest"))(x)


def by_channels(x, points):
    """Of an image whose channels are last."""
    sample = jax.vmap(lambda c: map_coordinates(c, at(points), order=1), in_axes=2, out_axes=1)
    return sample(x)


def each_image(x, points):
    """Of several images with places of their own, batched behind their channels."""
    places = jnp.moveaxis(points, 0, 1)
    return jax.vmap(coordinates, in_axes=(0, 1))(x, places)


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
    """Zero on one side only."""
    inside = (row >= 0) & (column >= 0)
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def strictly_masked(x, row, column):
    """Zero at the last row and column too."""
    inside = (row >= 0) & (row < x.shape[0] - 1) & (column >= 0) & (column < x.shape[1] - 1)
    return jnp.where(inside[:, None], clipped(x, row, column), 0)


def from_the_end(x, row, column):
    """Negative indices count from the end."""
    rows, columns = (jnp.clip(i, -n, n - 1) for i, n in zip((row, column), x.shape, strict=False))
    return x[rows, columns]


def ones_outside(x, row, column):
    inside = (row >= 0) & (row < x.shape[0]) & (column >= 0) & (column < x.shape[1])
    return jnp.where(inside[:, None], clipped(x, row, column), 1)


def truncated(x, points):
    """Indices towards zero, which are others below it."""
    row, column = at(points)
    top, left = row.astype(jnp.int32), column.astype(jnp.int32)
    return mixed(partial(clipped, x), top, left, (row - top)[:, None], (column - left)[:, None])


def clipped_weights(x, points):
    """Weights of clipped indices: beyond the edge both neighbours are one pixel, and weights of any
    size sum to one, which no rule proves."""
    row, column, top, left, _, _ = around(points)
    b = (row - jnp.clip(top, 0, x.shape[0] - 1))[:, None]
    a = (column - jnp.clip(left, 0, x.shape[1] - 1))[:, None]
    return mixed(partial(clipped, x), top, left, b, a)


def smoothed(x, points):
    """By the cube of what is left."""
    _, _, top, left, b, a = around(points)
    b, a = ((s * s * (3 - 2 * s))[:, None] for s in (b, a))
    return mixed(partial(clipped, x), top, left, b, a)


def exchanged(x, points):
    """With the weights of rows for columns."""
    _, _, top, left, b, a = around(points)
    return mixed(partial(clipped, x), top, left, a[:, None], b[:, None])


def apart(x, points):
    """Neighbours two pixels apart."""
    _, _, top, left, b, a = around(points)
    return mixed(partial(clipped, x), top, left, b[:, None], a[:, None], 2)


def of_scipy(x, points, **how):
    return map_coordinates(x[..., 0], at(points), order=1, **how)


BY_HAND = {
    "four": four,
    "masked": partial(four, tap=masked),
    "multiplied": partial(four, tap=multiplied),
    "flat": partial(four, tap=flat),
    "by next": by_next,
    "lerped": lerped,
}
"""Sampling of an image of the shape ``HWC`` that is right and stays gathers."""

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
    "apart": apart,
    "mirrored": partial(of_scipy, mode="mirror"),
    "reflected": partial(of_scipy, mode="reflect"),
    "wrapped": partial(of_scipy, mode="wrap"),
    "filled": partial(of_scipy, cval=0.5),
}
"""Of an image of the shape ``HWC``: none of these is a ``GridSample``."""
