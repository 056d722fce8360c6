"""Random chains of reshapes, transposes and slices mean what numpy makes of them."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run

N = "N"
Factors = tuple["int | str", ...]  # of one axis
SIZE = 3  # what N is when a chain with a named size runs


@dataclass(frozen=True)
class Chain:
    """Operations on an input whose axes are products of factors, one of them perhaps ``N``."""

    start: tuple[Factors, ...]
    steps: tuple[tuple[str, tuple], ...]

    def __call__(self, x, n):
        """``n`` is the size, or what stands for it in a trace."""
        for op, argument in self.steps:
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


def shape_of(axes, n):
    return tuple(math.prod(n if f == N else f for f in axis) for axis in axes)


def draw(rng, factors):
    axes = grouped(rng, rng.permutation(np.array(factors, object)).tolist())
    start, steps = axes, []
    for _ in range(rng.integers(3, 9)):
        op = rng.choice(["reshape", "transpose", "slice"], p=[0.4, 0.45, 0.15])
        if op == "reshape":
            axes = grouped(rng, [f for axis in axes for f in axis])
            steps.append((op, axes))
        elif op == "transpose":
            order = tuple(rng.permutation(len(axes)).tolist())
            axes = tuple(axes[i] for i in order)
            steps.append((op, order))
        else:
            cuts, axes = zip(*(cut(rng, axis) for axis in axes), strict=True) if axes else ((), ())
            steps.append((op, cuts))
    return Chain(start, tuple(steps))


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
    return tuple(axes)


def cut(rng, axis):
    """((start, stop, power), factors): a part of an axis, both ends times ``n ** power``."""
    power = axis.count(N)
    size = math.prod(f for f in axis if f != N)
    start, stop = 0, size
    if size and rng.random() < 0.4:
        start = rng.integers(0, size)
        stop = start if rng.random() < 0.1 else rng.integers(start + 1, size + 1)
    return (int(start), int(stop), power), (*primes(int(stop - start)), *(N,) * power)


def primes(number):
    found, prime = [] if number else [0], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime += 1
    return tuple(found)


FACTORS = (
    [2, 2, 2],
    [2, 2, 2, 2, 2],
    [2, 2, 3, 3],
    [2, 3, 5, 2],
    [2, 2, 2, 3, 3],
    [7, 2, 2],
    [1, 2],
)


def assert_same(chain):
    shape = shape_of(chain.start, SIZE)
    x = np.arange(math.prod(shape), dtype=np.float32).reshape(shape)
    named = tuple(
        "*".join(map(str, axis)) if N in axis else math.prod(axis) for axis in chain.start
    )
    export = converter.to_onnx(lambda x, n: chain(x, n.shape[0]), [named, (N,)])
    (got,) = run(export, [x, np.zeros(SIZE, np.float32)]).values()
    np.testing.assert_array_equal(got, chain(x, SIZE), err_msg=f"{chain}\n{export.graph}")


def chains(seed, count, more=()):
    rng = np.random.default_rng(seed)
    pick = [[*FACTORS[i % len(FACTORS)], *more] for i in range(count)]
    return [draw(rng, factors) for factors in pick]


@pytest.mark.parametrize(("seed", "count", "more"), [(1, 80, []), (3, 40, [N])])
def test_chains(seed, count, more):
    """Of known sizes, and with a named one."""
    for chain in chains(seed, count, more):
        assert_same(chain)


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_more_chains(seed):
    for chain in (*chains(seed, 200), *chains(seed, 100, [N])):
        assert_same(chain)


# ------------------------------------------------------------------------- chains that people write


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
