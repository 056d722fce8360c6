"""Reductions of axes and of windows by functions that the caller defines."""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, SAMPLES, Case

INTS = ((5, 6), np.int32)


def largest(xs, ys):
    """Return the larger number and its position; of equal numbers, the first."""
    first = (xs[0] > ys[0]) | ((xs[0] == ys[0]) & (xs[1] < ys[1]))
    return tuple(jnp.where(first, x, y) for x, y in zip(xs, ys, strict=True))


START = (-np.inf, np.int32(99))
WINDOWS = ((2, 3), (1, 2), "VALID")


def placed(x):
    return x, lax.broadcasted_iota(jnp.int32, x.shape, 1)


def argmax(x):
    return lax.reduce(placed(x), START, largest, (1,))


def reduced(start, combine, *axes):
    return lambda x: lax.reduce(x, np.asarray(start, x.dtype), combine, axes)


def window(start, combine, *dimensions):
    return lambda x: lax.reduce_window(x, np.asarray(start, x.dtype), combine, *dimensions)


TWO_DIGITS = np.arange(30, dtype=np.int32).reshape(5, 6) * 37 % 100


def affine(x, y):
    """Compose two affine functions modulo 9, which are encoded as 10 a + b.

    This is associative but not commutative. For numbers of more than two digits it is not
    associative either, so that JAX may compute any result.
    """
    return (x // 10 * (y // 10) % 9) * 10 + (y // 10 * (x % 10) + y % 10) % 9


def pooled(x):
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 2), ((1, 0), (1, 1)))


PROGRAMS = [
    Case("over a named axis", reduced(0, lambda x, y: x + y + x * y, 0), (("B", 3),)),
    Case("of none", reduced(0, lambda x, y: x + y + x * y, 1), ((4, 0),), tags=DEFAULT),
    Case("in order", reduced(10, affine, 1), (TWO_DIGITS,)),
    Case("argmax", argmax, ((5, 7),), (18, 23), tags=DEFAULT | {"vmap 1"}),
    Case("named argmax", argmax, (("B", 7),)),
    Case("other start", window(3, lax.add, (2, 2), (2, 1), ((1, 0), (0, 1))), (INTS,)),
    Case("dilated", window(1, lax.mul, (2, 2), (1, 1), "VALID", (2, 3), (3, 2)), ((4, 5),)),
    Case("named window", window(1, lax.mul, (1, 2), (1, 1), "VALID"), (("B", 5),)),
    Case(
        "ignored operand",
        window(1, lambda _, y: lax.max(y, 2.0), (1,), (1,), "VALID"),
        ((5,),),
        tags=DEFAULT | {SAMPLES},
    ),
    Case(
        "places",
        lambda x: lax.reduce_window(placed(x), START, largest, *WINDOWS),
        ((5, 7),),
        tags=DEFAULT,
    ),
    Case(
        "directional",
        lambda x, t: jax.jvp(pooled, (x,), (t,)),
        ((5, 6), (5, 6)),
        (18, 23),
        tags=DEFAULT,
    ),
    Case("equals", lambda x, t: jax.jvp(pooled, (x * 0,), (t,))[1], ((5, 6), (5, 6))),
    Case("half", lambda x, t: jax.jvp(pooled, (x,), (t,))[1], [((5, 6), np.float16)] * 2),
]
