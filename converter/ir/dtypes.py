"""What dtypes hold. bfloat16 is not one of numpy's own, so numpy alone cannot be asked."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np


def is_float(dtype: Any) -> bool:
    """Floating point, bfloat16 among it."""
    return bool(jnp.issubdtype(dtype, jnp.floating))


def is_integer(dtype: Any) -> bool:
    """Integers of either kind, booleans not among them."""
    return bool(jnp.issubdtype(dtype, jnp.integer))


def highest(dtype: Any) -> float | int | bool:
    """Largest value of a dtype: infinity, the largest integer, true."""
    if is_float(dtype):
        return math.inf
    return int(jnp.iinfo(dtype).max) if is_integer(dtype) else True


def lowest(dtype: Any) -> float | int | bool:
    """Smallest value of a dtype: minus infinity, the smallest integer, false."""
    if is_float(dtype):
        return -math.inf
    return int(jnp.iinfo(dtype).min) if is_integer(dtype) else False


def convert_as_xla(array: np.ndarray, dtype: Any) -> np.ndarray:
    """``array`` as another dtype as XLA has it: a float is cut off to the nearest integer that
    there is, and NaN becomes zero; numpy would wrap.
    """
    if not (is_float(array.dtype) and is_integer(dtype)):
        return array.astype(dtype)
    wide = array.astype(np.float64)
    above, below = wide >= float(highest(dtype)), wide <= float(lowest(dtype))
    inside = np.where(above | below | np.isnan(wide), 0, wide).astype(dtype)
    return np.where(above, highest(dtype), np.where(below, lowest(dtype), inside)).astype(dtype)
