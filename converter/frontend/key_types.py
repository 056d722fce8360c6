"""PRNG keys as the numbers that they hold, for which ONNX has a dtype.

A key of threefry is two of uint32, so an array of keys is one of numbers with an axis of two at its
end. No value of a graph has a key's dtype: nodes take and give the numbers, whatever JAX does to
the keys themselves.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax
import numpy as np

from converter.errors import Unsupported
from converter.ir.dims import Shape, as_shape

GENERATORS = {"key<fry>": "threefry2x32", "key<rbg>": "rbg", "key<urbg>": "unsafe_rbg"}
"""By the name of their dtype, the kinds of keys that JAX has, as it calls them."""

UNCHANGED = frozenset({"random_wrap", "random_unwrap", "random_clone"})
"""Primitives that change the dtype of keys, or nothing."""

DRAWS = frozenset({"random_seed", "random_split", "random_fold_in", "random_bits", "random_gamma"})
"""Primitives that compute something of what keys hold. All others only move keys."""

WRITTEN = "key<fry>"
"""The keys whose draws can be written: threefry is arithmetic alone, and the same everywhere."""


def is_key(array: Any) -> bool:
    """Whether these are keys: an array, its type or a variable's."""
    return bool(jax.numpy.issubdtype(array.dtype, jax.dtypes.extended))


def key_type(aval: Any) -> tuple[Shape, Any]:
    """The shape and the dtype of the numbers that stand for an array."""
    if not is_key(aval):
        return as_shape(aval.shape), aval.dtype
    return (*as_shape(aval.shape), *_key_types_size(aval.dtype)), np.dtype(np.uint32)


@lru_cache
def _key_types_size(dtype: Any) -> tuple[int, ...]:
    """The shape of what one key holds."""
    if dtype.name not in GENERATORS:
        raise Unsupported(
            f"keys of dtype {dtype.name} are not among those that JAX has itself; "
            "make them with jax.random.key(seed, impl='threefry2x32')"
        )
    return jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct((), dtype)).shape


def key_numbers(array: Any) -> Any:
    """What keys hold; any other array is itself."""
    return jax.random.key_data(array) if is_key(array) else array


def keys(array: Any, dtype: Any) -> Any:
    """Keys that hold these numbers, where ``dtype`` is a key's and they are not keys yet."""
    wanted = jax.numpy.issubdtype(dtype, jax.dtypes.extended)
    if not wanted or is_key(array):
        return array
    return jax.random.wrap_key_data(array, impl=GENERATORS[dtype.name])
