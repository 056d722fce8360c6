"""Random chains of reshapes, transposes and slices mean what numpy makes of them."""

import math
from functools import partial

import jax
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run

N = "N"
SIZE = 3  # what N is when a chain with a named size runs

# An axis is a tuple of its factors, one of them perhaps ``N``.


def shape_of(axes, n):
    return tuple(math.prod(n if f == N else f for f in axis) for axis in axes)


def grouped(rng, factors):
    """The factors as axes, now and then several in one, sometimes none: an axis of one."""
    axes = []
    for factor in factors:
        if axes and rng.random() < 0.25:
            axes[-1] = (*axes[-1], factor)
        else:
            axes.append((factor,))
    while rng.random() < 0.25:
        axes.insert(rng.integers(0, len(axes) + 1), ())
    return axes


def cut(rng, axis):
    """((start, stop, power), factors): a part of an axis, both ends times ``n ** power``."""
    power = axis.count(N)
    size = math.prod(f for f in axis if f != N)
    if not size or rng.random() > 0.4:
        return (0, size, power), axis
    start = int(rng.integers(0, size))
    stop = start if rng.random() < 0.1 else int(rng.integers(start + 1, size + 1))
    left = stop - start
    return (start, stop, power), ((2, left // 2) if left % 2 == 0 else (left,)) + (N,) * power


def drawn(rng, factors):
    """The axes of an input, and operations on it: a name, and what it is called with."""
    start = axes = grouped(rng, rng.permutation(np.array(factors, object)).tolist())
    steps = []
    for _ in range(rng.integers(3, 9)):
        op = rng.choice(["reshape", "transpose", "slice"], p=[0.4, 0.45, 0.15])
        if op == "reshape":
            argument = axes = grouped(rng, [f for axis in axes for f in axis])
        elif op == "transpose":
            argument = rng.permutation(len(axes)).tolist()
            axes = [axes[i] for i in argument]
        else:
            argument, axes = zip(*(cut(rng, axis) for axis in axes), strict=True)
        steps.append((op, argument))
    return start, steps


def applied(steps, x, n):
    """``n`` is the size, or what stands for it in a trace."""
    for op, argument in steps:
        if op == "reshape":
            x = x.reshape(shape_of(argument, n))
        elif op == "transpose":
            x = x.transpose(argument)
        else:
            starts, stops = ([cut[i] * n ** cut[2] for cut in argument] for i in (0, 1))
            if isinstance(x, np.ndarray):
                x = x[tuple(map(slice, starts, stops))]
            else:
                x = lax.slice(x, starts, stops)
    return x * 2


FACTORS = ([2] * 3, [2] * 5, [2, 2, 3, 3], [2, 3, 5, 2], [2, 2, 2, 3, 3], [7, 2, 2], [1, 2])


@pytest.mark.parametrize("more", [[], [N]])
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(n, marks=pytest.mark.full) for n in range(100, 124))]
)
def test_chains(seed, more):
    """Of known sizes, and with a named one."""
    rng = np.random.default_rng(seed)
    for factors in FACTORS * (6 if more else 12):
        start, steps = drawn(rng, [*factors, *more])
        shape = shape_of(start, SIZE)
        x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
        named = tuple("*".join(map(str, axis)) if N in axis else math.prod(axis) for axis in start)
        fn = partial(applied, steps)
        export = converter.to_onnx(lambda x, n, fn=fn: fn(x, *n.shape), [named, (N,)])
        (got,) = run(export, [x, np.zeros(SIZE, np.float32)]).values()
        np.testing.assert_array_equal(got, fn(x, SIZE), f"{start} {steps}\n{export.graph}")


def unroll(x):
    """Hiera's and SAM 2's: tokens of one 2x2 block after the other, three levels deep."""
    batch, side, channels = x.shape[0], 56, x.shape[-1]
    blocks = 1
    for _ in range(3):
        x = x.reshape(batch * blocks, side // 2, 2, side // 2, 2, channels)
        x = x.transpose(0, 2, 4, 1, 3, 5).reshape(batch * blocks * 4, -1, channels)
        blocks, side = 4 * blocks, side // 2
    return x.reshape(batch, -1, channels) * 2


@pytest.mark.parametrize("batch", [2, "B"])
def test_an_axis_that_is_split_more_than_once(batch):
    x = np.arange(2 * 56 * 56 * 3, dtype=np.float32).reshape(2, 56, 56, 3)
    (got,) = run(converter.to_onnx(unroll, [(batch, 56, 56, 3)]), [x]).values()
    np.testing.assert_array_equal(got, unroll(x))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.reshape(6, -1)[:, :1],
        lambda x: x.reshape(2, 3, -1)[:, :, :1].reshape(6),
        lambda x: x.reshape(6, -1)[:, -1].reshape(2, 3).T,
        lambda x: jax.image.resize(x.reshape(2, 3, -1), (2, 5, x.shape[0] // 6), "cubic")[..., :1],
    ],
)
def test_every_nth_element_for_a_named_n(fn):
    """What a slice with a stride without a number would take stays a slice of its own axis."""
    x = np.arange(6 * SIZE, dtype=np.float32)
    (got,) = run(converter.to_onnx(fn, [(f"6*{N}",)]), [x]).values()
    np.testing.assert_allclose(got, fn(x), rtol=1e-5)
