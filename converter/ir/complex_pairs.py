"""Represent a complex array as two real arrays, or as one real array with a trailing axis of
two."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Pair(NamedTuple):
    """The real and the imaginary part of a complex array."""

    re: jax.Array
    im: jax.Array


@cache
def is_complex(dtype: Any) -> bool:
    """Return True if a dtype is complex."""
    return bool(jnp.issubdtype(dtype, jnp.complexfloating))


def real_dtype(dtype: Any) -> Any:
    """Return the dtype of the parts of a complex dtype, such as float32 for complex64; a real dtype
    is returned unchanged."""
    return np.dtype(f"float{4 * np.dtype(dtype).itemsize}") if is_complex(dtype) else dtype


def real_type(shape: Any, dtype: Any) -> tuple[Any, Any]:
    """Return the shape and the dtype with which an array is represented in the graph.

    A complex array is represented by a real array with a trailing axis of size two. Real arrays are
    not changed.
    """
    return ((*shape, 2), real_dtype(dtype)) if is_complex(dtype) else (shape, dtype)


def pack_complex(array: Any) -> Any:
    """Return a complex array as a real array with a trailing axis of two, the real and the
    imaginary part.

    A real array is returned unchanged.
    """
    if not is_complex(array.dtype):
        return array
    if isinstance(array, jax.core.Tracer):
        return join_parts(complex_parts(array))
    array = np.asarray(array)
    return np.ascontiguousarray(array).view(real_dtype(array.dtype)).reshape(*array.shape, 2)


def unpack_complex(array: Any, rank: int) -> Any:
    """Return the complex array of rank ``rank`` that a real array of rank + 1 represents.

    The last axis of the real array has the two parts. An array of another rank, or a complex one,
    is returned unchanged.
    """
    if is_complex(array.dtype) or array.ndim != rank + 1:
        return array
    return lax.complex(*(lax.index_in_dim(array, i, -1, keepdims=False) for i in (0, 1)))


def join_parts(x: Any) -> Any:
    """Return a pair as one array with a trailing axis of two. Anything else is returned
    unchanged."""
    if not isinstance(x, Pair):
        return x
    return lax.concatenate([lax.expand_dims(part, [part.ndim]) for part in x], x.re.ndim)


def split_parts(x: jax.Array) -> Pair:
    """Return the two entries of the trailing axis as the real and the imaginary part."""
    return Pair(*(lax.index_in_dim(x, i, -1, keepdims=False) for i in (0, 1)))


def combine_parts(x: Pair) -> jax.Array:
    """Return the complex array of a pair."""
    return lax.complex(x.re, x.im)


def complex_parts(x: jax.Array) -> Pair:
    """Return the real and the imaginary part of a complex array."""
    return Pair(lax.real(x), lax.imag(x))
