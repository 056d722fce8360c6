"""``jax.image`` becomes ONNX's ``Resize`` if this has the same meaning and is no slower, and
otherwise matrix products."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.image import resize, scale_and_translate

from tests.conformance import DEFAULT, EVERY_LEVEL, JUDGES, SAMPLES, Case
from zoo.architectures.depth.aligned_resize import resize_aligned

OPSETS = (17, 18, 23)
NEW = (18, 23)
ONE = {"Resize": 1, "MatMul": 0, "Gather": 0, "Transpose": 0}
PRODUCTS = {"Resize": 0, "MatMul": 2, "Gather": 0}
BOTH = {"Resize": 1, "MatMul": 1}


def to(*shape: int, method: str = "linear", antialias: bool = True) -> Callable[..., Any]:
    return lambda x: resize(x, shape, method, antialias)


def hats(size: int, positions: np.ndarray) -> np.ndarray:
    """Return the weights of linear interpolation at these positions, computed by numpy."""
    rows = [np.interp(positions, np.arange(size), row) for row in np.eye(size)]
    return np.stack(rows).astype(np.float32)


def half_pixel(size: int, count: int) -> np.ndarray:
    return (np.arange(count) + 0.5) * size / count - 0.5


def corners(size: int, count: int) -> np.ndarray:
    return np.linspace(0, size - 1, count)


# ------------------------------------------------------------------------------------ known sizes

SINCE = {"cubic-pytorch": "0.10", "area": "0.10"}
"""The lowest version of JAX that has a method."""

UP = (2, 3, 5, 7), (2, 3, 12, 9)
DOWN = (2, 3, 13, 17), (2, 3, 5, 4)
MIXED = (2, 3, 13, 5), (2, 3, 6, 11)
ROWS = (2, 3, 13, 17), (2, 3, 4, 17)
METHODS = [
    ("linear", True, UP, OPSETS, ONE),
    ("cubic", True, UP, NEW, ONE),
    ("linear", True, DOWN, (18,), ONE),
    ("cubic-pytorch", True, DOWN, (23,), ONE),
    ("cubic", True, MIXED, NEW, ONE),
    ("linear", True, DOWN, (17,), PRODUCTS),
    ("cubic-pytorch", False, UP, (17,), PRODUCTS),
    ("cubic", False, DOWN, (23,), PRODUCTS),
    ("cubic-pytorch", False, MIXED, (18,), BOTH),
    ("lanczos3", True, DOWN, (17, 23), PRODUCTS),
    ("nearest", True, UP, OPSETS, ONE),
    ("nearest", True, DOWN, (17, 23), {"Resize": 0, "Gather": 1, "Slice": 1}),
    ("nearest", True, ROWS, (18,), {"Resize": 0, "Gather": 1}),
]
KNOWN = [
    Case(
        f"{m} {aa} {a[2:]} to {b[2:]} at {opsets[0]}",
        to(*b, method=m, antialias=aa),
        (a,),
        opsets,
        ops,
        since=SINCE.get(m, ""),
    )
    for m, aa, (a, b), opsets, ops in METHODS
]

# JAX and ONNX Runtime compute positions in float32. Large positions are wrong by 1e-4 in both.
LAYOUTS = [
    Case("channels last", to(2, 9, 4, 3), ((2, 5, 7, 3),), ops={"Resize": 1, "Transpose": 2},
         tags=DEFAULT | {JUDGES}),
    Case("channels last, products", to(2, 9, 4, 40, method="lanczos3"), ((2, 5, 7, 40),),
         ops={**PRODUCTS, "Transpose": 0}),
    Case("cubic volume", to(2, 7, 4, 9, method="cubic"), ((2, 5, 6, 4),), ops={"Resize": 2}),
    Case("the same", to(2, 3, 5, 7), ((2, 3, 5, 7),), ops={"Resize": 0}),
    Case("large table", to(1, 3, 700), ((1, 3, 1100),), ops={**ONE, "Range": 0, "Sub": 0},
         tolerance=40, tags=DEFAULT),
    *(Case(f"by hand, {places.__name__}", lambda x, at=places: jnp.einsum(
        "nchw,hH,wW->nHWc", x, hats(5, at(5, 12)), hats(4, at(4, 7))),
         ((2, 3, 5, 4),), ops=PRODUCTS) for places in (half_pixel, corners)),
]  # fmt: skip

DTYPES = [
    *(Case(f"{np.dtype(d).name} {m}", to(2, 3, 9, 4, method=m), (((2, 3, 5, 7), d),), (17, 23),
           ops, tolerance=3)
      for d, m, ops in ((np.float16, "nearest", {"Resize": 1}), (np.float16, "cubic", {}),
                        (np.uint8, "nearest", {"Resize": 1}), (np.int8, "lanczos3", {}),
                        (np.bool_, "nearest", {"Resize": 0, "Gather": 1, "Slice": 1}))),
    Case("float16, one operator", to(2, 3, 9, 4), (((2, 3, 5, 7), np.float16),),
         ops={"Resize": 1, "Cast": 0}),
    Case("int32, one operator", to(2, 3, 9, 4), (((2, 3, 5, 7), np.int32),),
         ops={"Resize": 1, "Cast": 1}),
]  # fmt: skip


# -------------------------------------------------------------------------------------- neighbours

PAIRS = [(7, 3), (3, 7), (5, 640), (12, 4), (2, 1)]
NEIGHBOURS = [
    *(Case(f"{m} to {n}", to(2, n, n + 1, method="nearest"), ((2, m, m + 2),))
      for m, n in PAIRS),
    Case("twice the size", to(2, 3, 10, 14, method="nearest"), ((2, 3, 5, 7),), OPSETS, ONE),
    Case("a sixth", to(2, 6, method="nearest"), ((2, 36),),
         ops={"Resize": 0, "Gather": 0, "Slice": 1}, tags=DEFAULT),
    Case("many channels last", to(2, 10, 14, 32, method="nearest"), ((2, 5, 7, 32),),
         ops={"Resize": 0, "Gather": 2, "Transpose": 0}),
]  # fmt: skip


# ---------------------------------------------------------------------------------- symbolic sizes


def keep(x: jax.Array, *space: Any, **options: Any) -> jax.Array:
    """Resize the last axes, and keep batch and channels."""
    return to(*x.shape[: -len(space)], *space, **options)(x)


IMAGE = ("B", 3, "H", "W")
EXTRA = {"Resize": 1, "MatMul": 0, "Gather": 0, "Range": 0, "If": 0, "Loop": 0}
SYMBOLIC = [
    *(Case(f"{m} to fixed", lambda x, m=m: keep(x, 12, 7, method=m), (IMAGE,), NEW,
           EXTRA, since=SINCE.get(m, "")) for m in ("linear", "cubic-pytorch")),
    *(Case(f"{m} to multiples", lambda x, m=m: keep(
        x, 2 * x.shape[2], 3 * x.shape[3], method=m, antialias=m == "linear"), (IMAGE,), NEW,
        EXTRA) for m in ("linear", "cubic", "nearest")),
    Case("to another's size", lambda x, y: keep(x, *y.shape, method="cubic"),
         (("B", 3, "N", 6), ("H", "W")), NEW, EXTRA, tags=DEFAULT),
    Case("linear to another's size", lambda x, y: keep(x, *y.shape, antialias=False),
         ((2, "H", "W"), ("B", "N")), ops=EXTRA, tags=DEFAULT),
    Case("half", lambda x: keep(x, x.shape[2] // 2, x.shape[3] // 2), (("B", 3, "2*H", "2*W"),),
         ops=EXTRA, tags=DEFAULT),
    Case("nearest to fixed", lambda x: keep(x, 12, 7, method="nearest"), (IMAGE,), (17, 23),
         {"Resize": 0, "Gather": 2, "If": 0, "Loop": 0}, tags=DEFAULT),
    Case("channels last, symbolic", lambda x: to(x.shape[0], 9, 4, 3)(x), (("B", "H", "W", 3),),
         ops={**EXTRA, "Transpose": 2}),
    *(Case(f"{m} {aa} products", lambda x, m=m, aa=aa: keep(x, 12, 7, method=m, antialias=aa),
           (IMAGE,), (17, 23), {"Resize": 0, "MatMul": 2, "If": 0, "Loop": 0},
           tolerance=2, since=SINCE.get(m, ""))
      for m, aa in (("cubic-pytorch", False), ("lanczos3", True), ("area", True))),
    *(Case(f"{m} products at opset 17", lambda x, m=m: keep(x, 12, 7, method=m), (IMAGE,), (17,),
           {"Resize": 0, "If": 0, "Loop": 0}, tolerance=2) for m in ("linear", "cubic")),
]  # fmt: skip

# ----------------------------------------------------------------------------- scale, translation


def warp(
    x: jax.Array, *scale_and_shift: Any, to: Any = (3, 6, 11), m: str = "linear", aa: bool = True
) -> Any:
    return scale_and_translate(x, to, (1, 2), *map(jnp.asarray, scale_and_shift), m, aa)


SCALE, SHIFT = np.asarray([0.7, 1.6], np.float32), np.asarray([0.4, -1.2], np.float32)
MOVED = [
    *(Case(f"{m} {aa}", lambda x, m=m, aa=aa: warp(x, SCALE, SHIFT, m=m, aa=aa), ((3, 7, 5),),
           (17, 23), PRODUCTS)
      for m, aa in (("linear", True), ("cubic", False), ("lanczos3", True), ("area", False))),
    Case("a resize", lambda x: warp(x, [2.0, 3.0], [0.0, 0.0], to=(3, 14, 15)), ((3, 7, 5),),
         ops=PRODUCTS, tags=DEFAULT),
    Case("given at run time", lambda x, *how: warp(x, *how), ((3, 7, 5), SCALE, SHIFT), (17, 23),
         {"Resize": 0, "If": 0, "Loop": 0}, tolerance=2, tags=DEFAULT),
]  # fmt: skip

# ------------------------------------------------------------------------------- aligned corners


def aligned(*space: Any) -> Callable[..., Any]:
    """Return the zoo's resize with aligned corners, for a batch."""
    return jax.vmap(lambda x: resize_aligned(x, space))


def translated(x: jax.Array, *space: Any) -> jax.Array:
    """Resize the last axes with ``scale_and_translate``, as its documentation describes."""
    axes = range(x.ndim - len(space), x.ndim)
    scales = [(n - 1) / (x.shape[i] - 1) for i, n in zip(axes, space, strict=True)]
    scale_and_shift = jnp.array(scales), jnp.array([0.5 * (1 - scale) for scale in scales])
    return scale_and_translate(
        x, (*x.shape[: axes[0]], *space), axes, *scale_and_shift, "linear", False
    )


ALIGNED = [
    *(Case(f"{a[2:]} to {b}", aligned(*b), (a,), (17, 26), ONE)
      for a, b in (((2, 3, 5, 7), (12, 9)), ((2, 3, 13, 5), (6, 11)), ((2, 3, 1, 7), (4, 1)))),
    Case("float16", aligned(9, 4), (((2, 3, 5, 7), np.float16),), ops=ONE, tolerance=3),
    *(Case(f"translated to {b}", lambda x, b=b: translated(x, *b), ((2, 3, 5, 7),), (17, 26),
           {"Resize": 0, "MatMul": len(b)}) for b in ((9,), (12, 4), (7, 9, 4))),
    Case("symbolic to multiples", lambda x: aligned(14 * x.shape[2], 2 * x.shape[3])(x), (IMAGE,),
         (17, 26), EXTRA),
    Case("symbolic to fixed", aligned(12, 7), (IMAGE,), (17, 26), EXTRA),
    Case("aligned to another's size", lambda x, y: resize_aligned(x, y.shape),
         ((2, "H", "W"), ("B", "N")), ops=EXTRA, tags={SAMPLES}),
    Case("translated symbolic", lambda x: translated(x, 7 * x.shape[2], 6),
         (("B", 3, "2*H", "3*W"),), (17, 26), {"Resize": 0, "MatMul": 2}),
    Case("derivative", jax.grad(lambda x: (aligned(12, 4)(x) ** 2).sum()), ((2, 3, 5, 7),),
         tolerance=2),
]  # fmt: skip

# ----------------------------------------------------------------------------------- derivatives

GRADIENTS = [
    *(Case(m, jax.grad(lambda x, m=m: (keep(x, 12, 4, method=m) ** 2).sum()), ((2, 3, 5, 7),),
           (17, 23), tolerance=2) for m in ("nearest", "linear", "cubic")),
    Case("symbolic nearest", jax.grad(lambda x: (keep(
        x, 2 * x.shape[2], method="nearest") ** 2).sum()), (("B", 3, "H"),), (18, 23)),
]  # fmt: skip

# ---------------------------------------------------------------------------------- tables, loops


class Table(eqx.Module):
    """A module that adds resized positions. They are constant if the size of the input is fixed."""

    positions: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return x + resize(self.positions, (3, *x.shape[-2:]), "cubic")


def in_loop(x: jax.Array) -> jax.Array:
    """Resize the rows of a loop. They are equal, because each reads only values from outside of the
    loop."""
    _, rows = lax.scan(lambda c, _: (c, x[0] * 2), 0.0, None, length=5)
    return resize(rows, (6, 7), "cubic", antialias=False)


TABLE = jax.vmap(Table(jax.random.normal(jax.random.key(0), (3, 6, 5))))
TABLES = [
    Case("table of a known size", TABLE, ((2, 3, 9, 4),), ops={"Add": 1, "Resize": 0},
         tags=DEFAULT),
    Case("table of any size", TABLE, (("B", 3, "H", "W"),), ops={"Resize": 1}, tolerance=2,
         tags=DEFAULT),
    Case("loop", in_loop, tolerance=0.25, tags=DEFAULT),
]  # fmt: skip

# --------------------------------------------------------------------------------- behind a norm


def normed_channels(method: str) -> Callable[..., Any]:
    def fn(x):
        x = resize(jax.nn.standardize(x, -3), (2, 1, 5, 6), method)
        return x.transpose(3, 1, 0, 2)

    return fn


CHANNEL_SCALE = np.random.default_rng(91).standard_normal(4).astype(np.float32)


def normed_lanes(x):
    x = jax.nn.relu(x.transpose(3, 0, 1, 2))
    x = jax.vmap(to(4, 4, 4, antialias=False), 3, 1)(x)
    return (jax.nn.standardize(x, (1, 3)) * CHANNEL_SCALE).transpose(2, 0, 1, 3)


# ONNX Runtime's optimizer once created a Resize that it cannot run.
BEHIND_NORMS = [
    Case(name, fn, (shape,), (opset,), tags=DEFAULT | {EVERY_LEVEL})
    for name, fn, shape, opset in (
        ("behind a norm of channels", normed_channels("linear"), (2, 4, 3, 6), 18),
        ("behind a norm of channels, cubic", normed_channels("cubic"), (2, 4, 3, 6), 23),
        ("of lanes, before a norm", normed_lanes, (4, 6, 2, 3), 20),
    )
]

# ---------------------------------------------------------------------------------- named calls


@jax.jit
def _resize(x):
    """Repeat columns: a function with the name of JAX's resize that is none."""
    return jnp.repeat(x, 2, 1) * 2


@jax.jit
def _map_coordinates(x, rows, columns):
    """Gather elements: a function with the name of JAX's sampling that is none."""
    return x.at[rows.astype(int), columns.astype(int)].get(mode="clip") * 0.5


def of_same_names(x, y):
    inner = jax.jit(lambda x: resize(x, (6, 9), "linear") + 1)
    inner.__wrapped__.__name__ = "_resize"
    return inner(_resize(x)), _map_coordinates(x, y, y)


def nested_vmaps(axes: tuple[int, ...]) -> Case:
    fn, shape = to(9, 4), [5, 7]
    for number, axis in enumerate(reversed(axes)):
        shape.insert(min(axis, len(shape)), 2 + number)
        fn = jax.vmap(fn, in_axes=min(axis, len(shape) - 1), out_axes=-1)
    tags = frozenset() if axes in ((0, 1), (2, 1)) else DEFAULT
    return Case(f"vmaps of {axes}", fn, (tuple(shape),), ops={"Resize": 1}, tolerance=0.1,
                tags=tags)  # fmt: skip


def twice_in_a_loop(xs):
    """Enlarge an image in each step, once as it is and once times a sum of the earlier steps.

    ONNX Runtime needs two ``Resize`` for the second one, which is computed after the loop.
    """
    enlarge = to(2, 9, 12)

    def step(total, x):
        return total + enlarge(x), enlarge(x * total[0, 0, 0])

    return lax.scan(step, jnp.zeros((2, 9, 12)), xs)


def squared(x):
    return (to(3, 9, 16)(x) ** 2).sum()


NAMED_CALLS = [
    *map(nested_vmaps, ((0, 3), (2, 3), (1, 0, 2), (0, 1), (2, 1))),
    Case("in the steps of a map", lambda xs: lax.map(to(2, 9, 12), xs), ((4, 2, 5, 7),),
         ops={"Resize": 1, "MatMul": 0}, tags=DEFAULT),
    # The derivative has a call of the weights alone.
    Case("gradient of a map", jax.grad(lambda xs: lax.map(squared, xs).sum()), ((4, 3, 5, 7),),
         tags=DEFAULT),
    Case("in the steps of a scan", twice_in_a_loop, ((40, 2, 5, 7),),
         ops={"Resize": 3, "MatMul": 0}, tolerance=2, tags=DEFAULT),
    Case("lanczos in the steps of a map", lambda xs: lax.map(to(2, 9, 4, method="lanczos3"), xs),
         ((4, 2, 5, 7),), ops=PRODUCTS, said="not those of a kernel", tags=DEFAULT),
    Case("functions of the same names", of_same_names,
         ((4, 5), np.float32([0.5, 1.0, 2.9])), ops={"GridSample": 0},
         tolerance=0.1, tags=DEFAULT),
    Case("gradient of a square", jax.grad(squared), ((3, 5, 7),), tags=DEFAULT),
    Case("tangent of a square", lambda x: jax.jvp(squared, (x,), (x * 2,)), ((3, 5, 7),),
         tags=DEFAULT),
    Case("smoothed cubic of PyTorch", to(2, 3, method="cubic-pytorch"), ((7, 8),),
         ops={"Resize": 1}, tolerance=2, tags=DEFAULT, since=SINCE["cubic-pytorch"]),
    # The gradient of a resize to equal sizes has a call whose results are not used.
    Case("call without used results", jax.grad(lambda x: jnp.sin(to(4, 3, method="nearest")(x))
         .sum()), ((4, 3),), tags=DEFAULT),
]  # fmt: skip

# ------------------------------------------------------------------------------------- near misses

WEIGHTS = np.random.default_rng(0).random((7, 9)).astype(np.float32)
MIRRORED = hats(7, half_pixel(7, 9))[:, ::-1].copy()
NEAR_MISSES = [
    *(Case(f"left: {name}", fn, (shape,), (opset,), {"Resize": 0}, tolerance=2, said=said,
           tags=DEFAULT)
      for name, fn, shape, opset, said in (
        ("lanczos", to(2, 9, 4, method="lanczos3"), (2, 5, 7), 23, "not those of a kernel"),
        ("slow", to(2, 3, 4, method="cubic", antialias=False), (2, 5, 7), 23, "slower than produ"),
        ("old", to(2, 3, 4), (2, 5, 7), 17, "needs opset 18"),
        ("old, named", lambda x: keep(x, 3, 4), ("B", "H", "W"), 17, "needs opset 18"),
        ("slow, named", lambda x: keep(x, 4, antialias=False, method="cubic"), ("B", "H"), 23,
         "slower than"),
        ("nearest", lambda x: keep(x, 4, method="nearest"), ("B", "H"), 23, "rounding"),
        ("weights", lambda x: x @ (WEIGHTS / WEIGHTS.sum(0)), (2, 7), 23, ""),
        ("mirrored", lambda x: x @ MIRRORED, (2, 7), 23, ""),
        ("twice", lambda x: x @ (resize(jnp.eye(7), (7, 9), "linear") * 2), (2, 7), 23, ""),
        ("indices", lambda x: x[:, jnp.argsort(x[0])], (2, 7), 23, ""),
      )),
]  # fmt: skip

PROGRAMS = [
    *(*KNOWN, *LAYOUTS, *DTYPES, *NEIGHBOURS, *SYMBOLIC, *MOVED, *ALIGNED, *GRADIENTS),
    *(*TABLES, *BEHIND_NORMS, *NAMED_CALLS, *NEAR_MISSES),
]
