"""A complex array as two real ones, and as one with a trailing axis of two."""

from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


class Pair(NamedTuple):
    """The real and the imaginary part."""

    re: jax.Array
    im: jax.Array


@cache
def is_complex(dtype: Any) -> bool:
    """Whether a dtype is of complex numbers; every value of every equation is asked."""
    return bool(jnp.issubdtype(dtype, jnp.complexfloating))


def real_dtype(dtype: Any) -> Any:
    """The dtype of each part; of a real number its own."""
    return np.dtype(f"float{4 * np.dtype(dtype).itemsize}") if is_complex(dtype) else dtype


def real_type(shape: Any, dtype: Any) -> tuple[Any, Any]:
    """The shape and the dtype that an array has in the graph."""
    return ((*shape, 2), real_dtype(dtype)) if is_complex(dtype) else (shape, dtype)


def packed(array: Any) -> Any:
    """A complex array as a real one; others stay."""
    if not is_complex(array.dtype):
        return array
    if isinstance(array, jax.core.Tracer):
        return join_parts(complex_parts(array))
    array = np.asarray(array)
    return np.ascontiguousarray(array).view(real_dtype(array.dtype)).reshape(*array.shape, 2)


def unpack_complex(array: Any, rank: int) -> Any:
    """The complex array of so many axes that a real one with one more stands for."""
    if is_complex(array.dtype) or array.ndim != rank + 1:
        return array
    return lax.complex(*(lax.index_in_dim(array, i, -1, keepdims=False) for i in (0, 1)))


def join_parts(x: Any) -> Any:
    """The array in the graph for both parts."""
    if not isinstance(x, Pair):
        return x
    return lax.concatenate([lax.expand_dims(part, [part.ndim]) for part in x], x.re.ndim)


def split_parts(x: jax.Array) -> Pair:
    """Both parts of an array in the graph."""
    return Pair(*(lax.index_in_dim(x, i, -1, keepdims=False) for i in (0, 1)))


def combine_parts(x: Pair) -> jax.Array:
    """The complex array, for functions that are easiest said of those."""
    return lax.complex(x.re, x.im)


def complex_parts(x: jax.Array) -> Pair:
    """Both parts of a complex array."""
    return Pair(lax.real(x), lax.imag(x))
