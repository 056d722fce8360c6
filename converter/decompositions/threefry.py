"""Draw from PRNG keys with Threefry-2x32 of 20 rounds, bit for bit as ``jax.random``.

Keys are uint32 arrays whose last axis has their two numbers. The numbers that are hashed depend on
JAX's setting ``jax_threefry_partitionable``. The generator is that of Salmon et al., "Parallel
random numbers: as easy as 1, 2, 3", 2011 (doi:10.1145/2063384.2063405).
"""

import math
from typing import Any, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.decompositions.registered import decomposition

Pair: TypeAlias = tuple[jax.Array, jax.Array]
Shape: TypeAlias = tuple[Any, ...]

ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = np.uint32(0x1BD11BDA)
GROUPS_OF_ROUNDS = 5  # each group has four rounds


@decomposition("threefry2x32")
def threefry2x32(k1: jax.Array, k2: jax.Array, x1: jax.Array, x2: jax.Array) -> Pair:
    """Return the two hashes of pairs of numbers ``x1``, ``x2`` by the keys ``k1``, ``k2``, all
    uint32.

    The rounds are unrolled, which is three times as fast as a loop.
    """
    keys = (k1, k2, k1 ^ k2 ^ PARITY)
    x1, x2 = x1 + k1, x2 + k2
    for group in range(GROUPS_OF_ROUNDS):
        for by in ROTATIONS[group % 2]:
            x1 = x1 + x2
            x2 = x1 ^ _rotate_bits(x2, by)
        x1 = x1 + keys[(group + 1) % 3]
        x2 = x2 + (keys[(group + 2) % 3] + np.uint32(group + 1))
    x1, x2 = jnp.broadcast_arrays(x1, x2)
    return x1, x2


def _rotate_bits(x: jax.Array, by: int) -> jax.Array:
    """Rotate the bits of uint32 numbers ``by`` positions to the left. The bits are moved by
    products and sums, because these are faster than shifts and bitwise operators."""
    return x * np.uint32(1 << by) + (x >> np.uint32(32 - by))


def _hash_pairs(keys: jax.Array, x1: Any, x2: jax.Array, rank: int) -> Pair:
    """Return the two hashes of pairs of numbers for each key.

    Arguments:
        keys: uint32 [..., 2].
        x1: the first numbers of the pairs.
        x2: the second numbers of the pairs.
        rank: how many axes of the numbers are hashed for each key. They are the last axes of the
            results, after the axes of ``keys``.
    """
    k1, k2 = (jnp.expand_dims(keys[..., i], range(-rank, 0)) for i in (0, 1))
    return threefry2x32(k1, k2, x1, x2)


def _flat_positions(shape: Shape) -> jax.Array:
    """Return the flat index of each element of an array of this shape, as uint32 in this shape.

    JAX hashes indices of 64 bits. Their upper half, which is zero for arrays of up to 2**32
    elements, is not returned.
    """
    return lax.iota(np.uint32, math.prod(shape)).reshape(shape)


def _hash_halves(keys: jax.Array, size: Any) -> jax.Array:
    """Return the hashes of the numbers from 0 to ``size - 1`` for each key, [..., size].

    A number of the first half is hashed together with the one of the second half that is ``(size +
    1) // 2`` larger. If ``size`` is odd, the last number of the first half is hashed with 0.
    """
    half = (size + 1) // 2
    low = lax.iota(np.uint32, half)
    high = low + jnp.asarray(half, np.uint32)
    high = jnp.where(high < jnp.asarray(size, np.uint32), high, np.uint32(0))
    return jnp.concatenate(_hash_pairs(keys, low, high, 1), -1)[..., :size]


@decomposition("random_seed", ignores=("impl",))
def random_seed(seeds: jax.Array) -> jax.Array:
    """Return the keys [..., 2] of integer seeds: the upper and the lower half of their 64 bits.

    The upper half is zero for seeds of fewer bits.
    """
    low = seeds.astype(np.uint32)
    if seeds.dtype.itemsize < 8:
        return jnp.stack([jnp.zeros_like(low), low], -1)
    high = lax.shift_right_logical(seeds, jnp.full_like(seeds, 32)).astype(np.uint32)
    return jnp.stack([high, low], -1)


@decomposition("random_fold_in")
def random_fold_in(keys: jax.Array, data: jax.Array) -> jax.Array:
    """Return new keys [..., 2] that depend on ``keys`` and on the integers ``data``.

    The axes of ``keys`` before the last and those of ``data`` are broadcast.
    """
    return jnp.stack(_hash_pairs(keys, np.uint32(0), data.astype(np.uint32), 0), -1)


@decomposition("random_split")
def random_split(keys: jax.Array, *, shape: Shape) -> jax.Array:
    """Return new keys of this shape for each key: [*keys.shape[:-1], *shape, 2]."""
    if jax.threefry_partitionable.value:
        return jnp.stack(_hash_pairs(keys, np.uint32(0), _flat_positions(shape), len(shape)), -1)
    return _hash_halves(keys, 2 * math.prod(shape)).reshape(*keys.shape[:-1], *shape, 2)


@decomposition("random_bits")
def random_bits(keys: jax.Array, *, bit_width: int, shape: Shape) -> jax.Array:
    """Return random unsigned integers of ``bit_width`` bits, in this shape for each key:
    [*keys.shape[:-1], *shape]."""
    if not jax.threefry_partitionable.value:
        return _sequential_bits(keys, bit_width, shape)
    high, low = _hash_pairs(keys, np.uint32(0), _flat_positions(shape), len(shape))
    return _join_words(high, low) if bit_width == 64 else (high ^ low).astype(f"uint{bit_width}")


def _sequential_bits(keys: jax.Array, bit_width: int, shape: Shape) -> jax.Array:
    """Return the random bits that JAX draws if ``jax_threefry_partitionable`` is off.

    Consecutive hashes of 32 bits are split into shorter numbers, or joined to numbers of 64 bits.
    """
    size = math.prod(shape)
    count = (bit_width * size + 31) // 32
    bits = _hash_halves(keys, count)
    if bit_width == 64:
        bits = _join_words(bits[..., :size], bits[..., size:])
    if bit_width < 32:
        steps = np.arange(0, 32, bit_width, dtype=np.uint32)
        numbers = (bits[..., None] >> steps).astype(f"uint{bit_width}")
        bits = numbers.reshape(*keys.shape[:-1], count * len(steps))[..., :size]
    return bits.reshape(*keys.shape[:-1], *shape)


def _join_words(high: jax.Array, low: jax.Array) -> jax.Array:
    """Return uint64 numbers from the upper and the lower 32 bits."""
    return high.astype(np.uint64) << np.uint64(32) | low.astype(np.uint64)
