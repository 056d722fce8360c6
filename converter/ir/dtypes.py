"""Kinds and limits of dtypes. numpy does not know bfloat16, so JAX is asked."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np


def is_float(dtype: Any) -> bool:
    """Return True for floating-point dtypes, including bfloat16."""
    return bool(jnp.issubdtype(dtype, jnp.floating))


def is_integer(dtype: Any) -> bool:
    """Return True for signed and unsigned integers, but not for Booleans."""
    return bool(jnp.issubdtype(dtype, jnp.integer))


def to_float64(array: np.ndarray) -> np.ndarray:
    """Return an array in float64. numpy's warning about a signalling NaN is suppressed."""
    with np.errstate(invalid="ignore"):
        return array.astype(np.float64)


def highest(dtype: Any) -> float | int | bool:
    """Return the largest value of a dtype: infinity for every float dtype, the largest integer, or
    True for Booleans."""
    if is_float(dtype):
        return math.inf
    return int(jnp.iinfo(dtype).max) if is_integer(dtype) else True


def lowest(dtype: Any) -> float | int | bool:
    """Return the smallest value of a dtype: minus infinity for every float dtype, the smallest
    integer, or False for Booleans."""
    if is_float(dtype):
        return -math.inf
    return int(jnp.iinfo(dtype).min) if is_integer(dtype) else False


def convert_as_xla(array: np.ndarray, dtype: Any) -> np.ndarray:
    """Convert an array to another dtype as XLA does.

    In a conversion from floats to integers, a number that exceeds the limits of the integer dtype
    is replaced by the nearest limit, and NaN is replaced by zero. Numpy would return other numbers
    there. All other conversions are numpy's.
    """
    if not (is_float(array.dtype) and is_integer(dtype)):
        return array.astype(dtype)
    numbers = array.astype(np.float64)
    is_above, is_below = numbers >= float(highest(dtype)), numbers <= float(lowest(dtype))
    converted = np.where(is_above | is_below | np.isnan(numbers), 0, numbers).astype(dtype)
    return np.where(is_above, highest(dtype), np.where(is_below, lowest(dtype), converted)).astype(
        dtype
    )
