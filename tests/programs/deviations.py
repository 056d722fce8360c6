"""Operations whose ONNX operators deviate from JAX, in strict files.

Strict files are exact up to the rounding of their exponentials. `tests/converter/test_exactness.py`
tests the reports of default files.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.ndimage import map_coordinates

from tests.conformance import DEFAULT, EVERY_LEVEL, Case, within_units

NAN, INF = np.nan, np.inf
X = np.array(
    [
        [3, NAN, 2, -1, 0.5, 7],
        [-INF, -INF, -INF, -INF, -INF, -INF],
        [0.0, -0.0, 0.0, -0.0, -1, 5],
        [INF, 1, -INF, NAN, NAN, 2],
    ],
    np.float32,
)
IMAGE = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 6)
ROWS = np.array([2, 0, 1], np.int32)
ADDED = np.array([[1, 2, NAN, 4, 5, 6]] * 3, np.float32)


def attend(x, is_visible):
    """Return attention to those rows of ``x`` that are visible."""
    queries = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    scores = jnp.where(is_visible, queries @ x.T, -jnp.inf)
    return jax.nn.softmax(scores, axis=-1) @ jnp.nan_to_num(x)


def pool(op, initial, *size, **options):
    return lambda x: lax.reduce_window(x, initial, op, (1, *size), (1, 1), "VALID", **options)


def loop(gates, cell):
    """Return a function that runs a recurrent cell over the rows of ``x``, [rows, 6].

    The state has three numbers; a cell with four gates has two states.
    """
    w, r = (np.linspace(-0.5, 1, n * 3 * gates, dtype=np.float32).reshape(n, -1) for n in (6, 3))

    def step(states, row):
        new = cell(states, jnp.split(row @ w, gates), jnp.split(states[0] @ r, gates))
        return new, new[0]

    return lambda x: lax.scan(step, (jnp.zeros(3), jnp.zeros(3))[: 2 if gates == 4 else 1], x)


def lstm(states, x, h):
    i, o, f, g = (a + b for a, b in zip(x, h, strict=True))
    c = jax.nn.sigmoid(f) * states[1] + jax.nn.sigmoid(i) * jax.nn.relu(g)
    return jax.nn.sigmoid(o) * jnp.tanh(c), c


def gru(states, x, h):
    z, r = (jax.nn.sigmoid(x[i] + h[i]) for i in (0, 1))
    return ((1 - z) * jnp.tanh(x[2] + r * h[2]) + z * states[0],)


FUNCTIONS = {
    "lstm": loop(4, lstm),
    "gru": loop(3, gru),
    "rnn": loop(1, lambda states, x, h: (jax.nn.relu(x[0] + h[0]),)),
    "reduce_max": lambda x: jnp.max(x, 1),
    "reduce_min": lambda x: (jnp.min(x, 0), jnp.min(x)),
    "argmax": lambda x: (jnp.argmax(x, 1), jnp.argmax(x)),
    "argmin": lambda x: jnp.argmin(x, 0),
    "max_pool": pool(lax.max, -jnp.inf, 3),
    "max_pool of minima": pool(lax.min, jnp.inf, 2),
    "max_pool dilated": pool(lax.max, -jnp.inf, 3, window_dilation=(1, 2)),
    "scatter-max": lambda x: x.at[ROWS].max(ADDED.astype(x.dtype)),
    "scatter-min": lambda x: x.at[ROWS].min(ADDED.astype(x.dtype)),
    "top_k": lambda x: lax.top_k(x, 4),
    "gelu": lambda x: jax.nn.gelu(-abs(x[2:]) - 4, approximate=False),
    "logistic": lambda x: jax.nn.sigmoid(x * 10),
    "resize": lambda x: jax.image.resize(x[:, :2], (4, 5), "linear"),
    "attention": lambda x: attend(x[:, :4], jnp.isfinite(x[:, :4]).all(1)),
    "grid_sample": lambda x: map_coordinates(IMAGE, [x, x * 0.5], order=1),
}

UNITS = {"gelu": 61, "lstm": 8, "gru": 8}
"""By function: units in the last place that a strict file may differ from JAX, if more than two.

An error of half a unit in x moves ``erfc(x)`` by x² / 2 units, at most 11² / 2. A cell adds up four
rounding errors twice.
"""


def strict_row(name: str, fn: Callable[..., Any], dtype: str) -> Case:
    is_float32, is_rounded = dtype == "float32", name == "logistic" and dtype != "float32"
    limit = UNITS.get(name, 8 if is_rounded else 2)
    tags = DEFAULT | {EVERY_LEVEL} if is_float32 else frozenset({EVERY_LEVEL})
    return Case(f"{name} of {dtype}", fn, (X.astype(dtype),), units=within_units(limit),
                strict=True, x64=not is_float32, tags=tags)  # fmt: skip


def sorts(x):
    """Return sorted numbers, with NaN last and zeros equal."""
    return jnp.sort(x, 1), jnp.argsort(x, 0)


def integer_extremes(x):
    return *sorts(x), jnp.max(x), jnp.argmax(x)


INTEGERS = np.nan_to_num(X).clip(-9, 9).astype(np.int32)
EXACT_BY_DEFAULT = [
    Case("integers in order", integer_extremes, (INTEGERS,), tolerance=0, tags=DEFAULT),
    *(Case(f"{dtype} in order", sorts, (X.astype(dtype),), tolerance=0, x64=dtype == "float64",
           tags=DEFAULT) for dtype in ("float16", "float32", "float64")),
]  # fmt: skip
"""Cases without a deviation."""

PROGRAMS = [
    *(strict_row(name, fn, dtype) for name, fn in FUNCTIONS.items()
      for dtype in ("float32", "float16", "float64")),
    *EXACT_BY_DEFAULT,
]  # fmt: skip
