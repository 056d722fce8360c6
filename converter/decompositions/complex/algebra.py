"""Arithmetic, and what takes complex numbers apart."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from converter.decompositions.complex.complex_rules import meaning, meanings
from converter.ir.complex_pairs import Pair, is_complex, real_dtype


def times(x: Pair, y: Pair) -> Pair:
    return Pair(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re)


def one_like(x: Pair) -> Pair:
    return Pair(jnp.ones_like(x.re), jnp.zeros_like(x.re))


def chosen(which: jax.Array, x: Pair, y: Pair) -> Pair:
    """The first where it holds, else the second."""
    return Pair(jnp.where(which, x.re, y.re), jnp.where(which, x.im, y.im))


def sides(x: Pair) -> tuple[jax.Array, jax.Array]:
    """The larger and the smaller of the parts' magnitudes."""
    a, b = jnp.abs(x.re), jnp.abs(x.im)
    return jnp.maximum(a, b), jnp.minimum(a, b)


def is_ordinary(size: jax.Array) -> jax.Array:
    """Whether a magnitude can be divided by: not zero, infinite or NaN."""
    return (size > 0) & (size < jnp.inf)


@meaning("abs")
def size(x: Pair) -> jax.Array:
    """The larger side times the length for a larger side of one, so that nothing overflows."""
    large, small = sides(x)
    ratio = small / jnp.where(is_ordinary(large), large, 1)
    return large * jnp.sqrt(1 + ratio * ratio)


@meaning("div")
def divided(x: Pair, y: Pair) -> Pair:
    """The divisor is scaled to a larger side of one first (as in Smith's method, 1962).

    A zero divides as a real one does; an infinite one gives zero.
    """
    large, _ = sides(y)
    plain = is_ordinary(large)
    scale = 1 / jnp.where(large == 0, y.re, large)
    c, d = jnp.where(plain, y.re * scale, 1), jnp.where(plain, y.im * scale, 0)
    length = c * c + d * d
    re, im = x.re * c + x.im * d, x.im * c - x.re * d
    return Pair(re / length * scale, im / length * scale)


@meaning("sign")
def sign(x: Pair) -> Pair:
    length = size(x)
    return chosen(length == 0, x, Pair(x.re / length, x.im / length))


@meaning("square")
def square(x: Pair) -> Pair:
    return Pair((x.re - x.im) * (x.re + x.im), (x.re + x.re) * x.im)


@meaning("integer_pow")
def integer_pow(x: Pair, *, y: int) -> Pair:
    """By repeated squaring, as JAX does."""
    result, left = None, abs(y)
    while left:
        if left % 2:
            result = x if result is None else times(result, x)
        x, left = square(x), left // 2
    whole = one_like(x) if result is None else result
    return whole if y >= 0 else divided(one_like(x), whole)


@meaning("conj", ignores=("input_dtype", "_input_dtype"))
def conj(x: Any) -> Pair:
    """Of any number. JAX's own table of uses has the second spelling of the parameter."""
    return Pair(x.re, -x.im) if isinstance(x, Pair) else Pair(x, jnp.zeros_like(x))


@meaning("convert_element_type")
def convert_element_type(x: Any, *, new_dtype: Any) -> Any:
    """A real number that is made of a complex one is its real part."""
    part = real_dtype(new_dtype)
    if not is_complex(new_dtype):
        return lax.convert_element_type(x.re, new_dtype)
    if isinstance(x, Pair):
        return Pair(*(lax.convert_element_type(half, part) for half in x))
    return Pair(lax.convert_element_type(x, part), jnp.zeros(x.shape, part))


@meaning("iota")
def iota(*_: Any, dtype: Any, shape: tuple[int, ...], dimension: int) -> Pair:
    part = real_dtype(dtype)
    return Pair(lax.broadcasted_iota(part, shape, dimension), jnp.zeros(shape, part))


meanings(
    {
        "real": lambda x: x.re,
        "imag": lambda x: x.im,
        "complex": lambda re, im: Pair(*jnp.broadcast_arrays(re, im)),
        "eq": lambda x, y: (x.re == y.re) & (x.im == y.im),
        "ne": lambda x, y: (x.re != y.re) | (x.im != y.im),
    }
)
# Of complex numbers JAX takes no bits but as those of themselves.
meanings({"bitcast_convert_type": lambda x: x}, ignores=("new_dtype",))
