"""Compute Fourier transforms as products with matrices of cosines and sines.

A long transform is computed by two shorter transforms with a multiplication between them (Cooley
and Tukey, 1965). A transform whose length is a large prime is computed by a convolution (Bluestein,
1970). A runtime's `DFT` may have errors of 3e-4 in float32 at length 1000, because it computes
Bluestein's large angles in float32. Here angles are reduced in integers, and their cosines are
rounded once.

Complex arrays are real ones with the real and imaginary parts on a last axis of two. The axis
before it is transformed, so that both together are one axis of a matrix product.
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from converter.decompositions.complex.algebra import multiply
from converter.decompositions.complex.complex_rules import REAL, complex_rule
from converter.errors import UnsupportedError
from converter.ir.complex_pairs import Pair, join_parts, split_parts

DIRECT = 128
"""Length up to which a transform is one product."""

LARGEST_FACTOR = 64
"""Largest factor into which a longer transform is split, if it has such factors."""

LARGEST_PRIME = 512
"""Prime length up to which a transform is one product."""


@complex_rule("fft", packed=True)
def fft(x: jax.Array, *, fft_type: Any, fft_lengths: tuple[int, ...]) -> jax.Array:
    """Return the Fourier transform over the last axes, as ``lax.fft`` does, axis by axis.

    Along the last axis, a forward real transform returns ``length // 2 + 1`` complex numbers, and
    an inverse real transform takes as many. This axis is transformed first, or last for the
    inverse.

    Arguments:
        x: real numbers for the forward real transform, otherwise complex ones.
        fft_type: complex or real, forward or inverse.
        fft_lengths: the lengths of the transformed axes; for a real transform, those of the real
            numbers.

    Raises:
        UnsupportedError: a length is a named size.
    """
    kind, *other_lengths, last = fft_type.name, *_known_lengths(fft_lengths)
    if kind == "RFFT":
        return _transform_axes(
            _transform_real(x, last, False, last // 2 + 1), other_lengths, False, 1
        )
    if kind == "IRFFT":
        return _invert_half(_transform_axes(x, other_lengths, True, 1), last)
    return _transform_axes(x, fft_lengths, kind == "IFFT", 0)


@complex_rule("fft" + REAL, packed=True)
def fft_of_real(x: jax.Array, *, fft_type: Any, fft_lengths: tuple[int, ...]) -> jax.Array:
    """Return the Fourier transform of complex numbers that are known to be real.

    ``x`` has only their real parts, as a real array.
    """
    kind, *other_lengths, last = fft_type.name, *_known_lengths(fft_lengths)
    if kind == "IRFFT":
        return fft(
            join_parts(Pair(x, jnp.zeros_like(x))), fft_type=fft_type, fft_lengths=fft_lengths
        )
    inverse = kind == "IFFT"
    return _transform_axes(_transform_real(x, last, inverse, last), other_lengths, inverse, 1)


def _known_lengths(lengths: tuple[Any, ...]) -> tuple[int, ...]:
    """Return the lengths unchanged. Raise `UnsupportedError` if one of them is a named size."""
    if not all(isinstance(n, int) for n in lengths):
        raise UnsupportedError(
            f"primitive 'fft' of lengths {lengths} cannot be written: they have to be known; "
            "give the transformed axes fixed sizes"
        )
    return lengths


def _transform_axes(x: jax.Array, lengths: Any, inverse: bool, trailing_axes: int) -> jax.Array:
    """Return the complex transform over several neighbouring axes.

    Arguments:
        lengths: the lengths of these axes.
        inverse: true for the inverse transform.
        trailing_axes: the number of axes after them, without the axis of two.
    """
    for index, length in enumerate(reversed(lengths)):
        axis = x.ndim - 2 - trailing_axes - index
        x = jnp.moveaxis(_transform(jnp.moveaxis(x, axis, -2), length, inverse), -2, axis)
    return x


def _transform(x: jax.Array, length: int, inverse: bool) -> jax.Array:
    """Return the complex transform over the axis before the last, by the method for its length."""
    factor = _factor(length)
    if factor == length and length > LARGEST_PRIME:
        return _transform_by_convolution(x, length, inverse)
    if factor == length:
        return _fourier_product(x, _matrix(length, inverse, x.dtype))
    return _transform_in_two(x, length, factor, inverse)


def _factor(length: int) -> int:
    """Return the first of two factors into which the transform of this length is split.

    It is the largest factor up to `LARGEST_FACTOR`, or else the smallest one. Return ``length``
    itself if the transform is not split, because its length is at most `DIRECT` or prime.
    """
    if length <= DIRECT:
        return length
    factors = [n for n in range(2, LARGEST_FACTOR + 1) if length % n == 0]
    if factors:
        return max(factors)
    return next((n for n in range(2, int(length**0.5) + 1) if length % n == 0), length)


def _transform_in_two(x: jax.Array, length: int, first: int, inverse: bool) -> jax.Array:
    """Return the transform over ``length`` numbers, by transforms over ``first`` and over ``length
    // first`` numbers.

    Numbers at a distance of ``length // first`` are transformed together. The results are
    multiplied by roots of unity, and transformed across these groups. ``x`` may be real, without
    the last axis of two.
    """
    second, is_real = length // first, x.shape[-1] == length
    tail = () if is_real else (2,)
    lines = x.reshape(*x.shape[: x.ndim - 1 - len(tail)], first, second, *tail)
    lines = jnp.swapaxes(lines, -1 - len(tail), -2 - len(tail))
    matrix = _matrix(first, inverse, x.dtype)
    lines = _fourier_product(lines, matrix[::2] if is_real else matrix, is_real)
    angles = np.outer(np.arange(second), np.arange(first))
    lines = join_parts(
        multiply(split_parts(lines), _roots_of_unity(angles, length, inverse, x.dtype))
    )
    lines = _transform(jnp.swapaxes(lines, -3, -2), second, inverse)
    lines = jnp.swapaxes(lines, -3, -2)
    return lines.reshape(*lines.shape[:-3], length, 2)


def _transform_by_convolution(x: jax.Array, length: int, inverse: bool) -> jax.Array:
    """Return the transform over the axis before the last by a convolution with a chirp, since ``jk
    = (j² + k² - (k - j)²) / 2``."""
    size = 1 << (2 * length - 2).bit_length()
    positions = np.arange(length)
    chirp = _roots_of_unity(positions**2, 2 * length, inverse, x.dtype)
    distances = np.minimum(np.arange(size), size - np.arange(size))
    kernel = np.where(
        distances < length, np.exp(1j * np.pi * (distances**2 % (2 * length)) / length), 0
    )
    kernel = np.fft.fft(np.conj(kernel) if inverse else kernel) / (length if inverse else 1)
    bands = Pair(*(jnp.asarray(half, x.dtype) for half in (kernel.real, kernel.imag)))
    padding = [(0, 0)] * (x.ndim - 2) + [(0, size - length), (0, 0)]
    transformed = _transform(
        jnp.pad(join_parts(multiply(split_parts(x), chirp)), padding), size, False
    )
    convolution = _transform(join_parts(multiply(split_parts(transformed), bands)), size, True)
    return join_parts(multiply(split_parts(convolution[..., :length, :]), chirp))


def _transform_real(x: jax.Array, length: int, inverse: bool, count: int) -> jax.Array:
    """Return the first ``count`` complex numbers of the transform of real numbers over their last
    axis."""
    factor = _factor(length)
    if factor < length:
        return _transform_in_two(x, length, factor, inverse)[..., :count, :]
    if length > LARGEST_PRIME:
        return _transform_by_convolution(join_parts(Pair(x, jnp.zeros_like(x))), length, inverse)[
            ..., :count, :
        ]
    return _fourier_product(x, _matrix(length, inverse, x.dtype)[::2, : 2 * count], is_real=True)


def _invert_half(x: jax.Array, length: int) -> jax.Array:
    """Return ``length`` real numbers, without the axis of two, from the first half of their
    transform.

    The imaginary part of the first number, and of the last one if the length is even, is not read.
    """
    count = length // 2 + 1
    if _factor(length) == length <= LARGEST_PRIME:
        matrix = _matrix(length, True, np.float64)[: 2 * count, ::2]
        twice = np.where((np.arange(count) == 0) | (2 * np.arange(count) == length), 1, 2)
        matrix = (matrix * np.repeat(twice, 2)[:, None]).astype(x.dtype)
        return jnp.matmul(x.reshape(*x.shape[:-2], 2 * count), matrix)
    mirror = x[..., 1 : length - count + 1, :][..., ::-1, :] * np.array([1, -1], x.dtype)
    return _transform(jnp.concatenate([x, mirror], -2), length, True)[..., 0]


def _fourier_product(x: jax.Array, matrix: np.ndarray, is_real: bool = False) -> jax.Array:
    """Return the product of the transformed axis with a matrix of real numbers, as complex numbers
    [..., count, 2].

    ``x`` is real, [..., length], if ``is_real``, otherwise complex, [..., length, 2].
    """
    flat = x if is_real else x.reshape(*x.shape[:-2], 2 * x.shape[-2])
    product = jnp.matmul(flat, matrix)
    return product.reshape(*product.shape[:-1], matrix.shape[1] // 2, 2)


def _matrix(length: int, inverse: bool, dtype: Any) -> np.ndarray:
    """Return the transform as a matrix of real numbers, [2 * length, 2 * length].

    It multiplies rows of complex numbers from the right. The real and imaginary parts of a number
    are neighbours in a row. The inverse is divided by ``length``.
    """
    positions = np.arange(length)
    roots = _float64_roots(np.outer(positions, positions), length, inverse) / (
        length if inverse else 1
    )
    real = np.stack([roots.real, roots.imag], -1)
    imaginary = np.stack([-roots.imag, roots.real], -1)
    return np.stack([real, imaginary], 1).reshape(2 * length, 2 * length).astype(dtype)


def _roots_of_unity(angles: np.ndarray, length: int, inverse: bool, dtype: Any) -> Pair:
    """Return ``exp(-2πi k / length)`` for the integers ``k`` in ``angles``, as a pair of constants.

    For the inverse transform they are conjugated.
    """
    roots = _float64_roots(angles, length, inverse)
    return Pair(*(jnp.asarray(half, dtype) for half in (roots.real, roots.imag)))


def _float64_roots(angles: np.ndarray, length: int, inverse: bool) -> np.ndarray:
    """Return ``exp(-2πi k / length)`` for the integers ``k`` in ``angles``, computed in float64.

    For the inverse transform they are conjugated. ``k`` is first reduced modulo ``length``, so that
    large numbers lose no precision.
    """
    sign = 1 if inverse else -1
    return np.exp(sign * 2j * np.pi * (angles % length) / length)
