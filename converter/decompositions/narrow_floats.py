"""Formulas for float32 and float64, on narrower floats."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import jax
import jax.numpy as jnp

FloatFormula = Callable[..., jax.Array]


def widened(formula: FloatFormula) -> FloatFormula:
    """The formula of as large operands, in float32 at least; its result in their dtype."""

    @wraps(formula)
    def wide(*xs: jax.Array) -> jax.Array:
        dtype = jnp.promote_types(xs[0].dtype, jnp.float32)
        alike = jnp.broadcast_arrays(*(x.astype(dtype) for x in xs))
        return formula(*alike).astype(xs[0].dtype)

    return wide
