"""Draws from gamma distributions, all lanes side by side, as ``jax.random`` has them.

Those that are rejected are drawn again until the last one is accepted (Marsaglia and Tsang, A
simple method for generating gamma variables, ACM Trans. Math. Softw. 26, 2000). JAX has a loop in
a loop: the inner one draws until a cube is positive. Here they are one, where a lane either draws
or goes on with its inner loop, and numbers that need not wait for each other come of one hash.
"""

import math
from typing import TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.registered import decomposition
from converter.decompositions.threefry import Pair, random_bits, random_split, split_lanes

Lanes: TypeAlias = tuple[jax.Array, jax.Array, Pair, Pair, Pair, jax.Array]
"""Which are drawn, and which of them go on with their inner loop; three keys; the cubes."""

SQUEEZE = 0.0331


@decomposition("random_gamma")
def random_gamma(keys: jax.Array, alpha: jax.Array, *, log_space: bool) -> jax.Array:
    """One number for each ``alpha``, or its logarithm; below one by a power of a uniform number."""
    count = math.prod(alpha.shape[keys.ndim - 1 :])
    each = random_split(keys, shape=(count,)).reshape(-1, 2)
    shape, alpha = alpha.shape, alpha.reshape(-1)
    drawn, own = split_lanes((each[:, 0], each[:, 1]), 2)
    large = alpha >= 1
    less = jnp.where(large, alpha, alpha + 1) - np.array(1 / 3, alpha.dtype)
    cubes = _accepted(drawn, less)
    uniform = _units(own, alpha.dtype)
    if log_space:
        power = jnp.log1p(-uniform)
        boost = jnp.where(large | (power == 0), 0, power * (1 / alpha))
        return (jnp.log(less) + jnp.log(cubes) + boost).reshape(shape)
    boost = jnp.where(large, 1, jnp.power(1 - uniform, 1 / alpha))
    return (less * cubes * boost).reshape(shape)


def _accepted(key: Pair, less: jax.Array) -> jax.Array:
    """A cube for each of the keys, which ``less`` times is as gamma distributed."""
    dtype = less.dtype
    scale = np.array(1 / 3, dtype) / jnp.sqrt(less)

    def step(lanes: Lanes) -> Lanes:
        live, again, *old, known = lanes
        new = split_lanes(old[0], 3)
        key, inner, own = (_chosen(again, x, y) for x, y in zip(old, new, strict=True))
        inner, drawn = split_lanes(inner, 2)
        normal, uniform = _normal_and_uniform(drawn, own, dtype)
        v = 1 + normal * scale
        again = v <= 0
        square, cube = normal * normal, v * v * v
        least = 1 - np.array(SQUEEZE, dtype) * (square * square)
        most = square * np.array(0.5, dtype) + less * (1 - cube + jnp.log(cube))
        rejected = (uniform >= least) & (jnp.log(uniform) >= most)
        known = jnp.where(live, cube, known)
        return live & (again | rejected), again, key, inner, own, known

    none = jnp.zeros(less.shape, bool)
    first: Lanes = (~none, none, key, key, key, jnp.ones_like(less))
    return lax.while_loop(lambda lanes: jnp.any(lanes[0]), step, first)[-1]


def _chosen(which: jax.Array, x: Pair, y: Pair) -> Pair:
    return jnp.where(which, x[0], y[0]), jnp.where(which, x[1], y[1])


def _normal_and_uniform(one: Pair, other: Pair, dtype: np.dtype) -> tuple[jax.Array, jax.Array]:
    """A normal number of one key and a uniform one of the other."""
    high, low = (jnp.stack(pair) for pair in zip(one, other, strict=True))
    units, uniform = _units((high, low), dtype)
    least = np.nextafter(np.array(-1, dtype), np.array(0, dtype))
    signed = jnp.maximum(least, units * (np.array(1, dtype) - least) + least)
    return lax.erf_inv(signed) * np.array(np.sqrt(2), dtype), uniform


def _units(key: Pair, dtype: np.dtype) -> jax.Array:
    """Uniform numbers from zero to one, one a key: random bits behind those of the number one."""
    info = jnp.finfo(dtype)
    width = info.bits if info.nmant >= 8 else 8
    bits = random_bits(jnp.stack(key, -1), bit_width=width, shape=()).astype(f"uint{info.bits}")
    one = np.array(1, dtype)
    filled = bits >> np.array(width - info.nmant, bits.dtype) | one.view(bits.dtype)
    return lax.bitcast_convert_type(filled, dtype) - one
