"""Names and forms that differ between versions of JAX, from 0.7.2 on. No other package checks
versions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]

try:
    from jax.errors import InconclusiveDimensionOperation
except ImportError:  # before jax 0.10
    from jax.core import InconclusiveDimensionOperation

__all__ = [
    "DIGAMMA_OF_ZERO",
    "IGAMMA_OF_INFINITY",
    "InconclusiveDimensionOperation",
    "bind_params",
    "bind_primitive",
    "enable_x64",
    "named_params",
    "top_k",
]

DIGAMMA_OF_ZERO = -math.inf if jax.__version_info__ >= (0, 11, 2) else math.nan
"""The result of ``lax.digamma`` for zeros of either sign."""

IGAMMA_OF_INFINITY = jax.__version_info__ >= (0, 11)
"""True if the incomplete gamma functions return their limit for an infinite first operand."""

TOP_K_HAS_AXIS = jax.__version_info__ >= (0, 8)


def named_params(eqn: Any) -> Mapping[str, Any]:
    """Return the parameters of an equation of a jaxpr as the newest JAX would name them.

    Before jax 0.8 ``top_k`` has no parameter ``axis``; the last axis is added. The precision
    ``F16_F16_F32`` is replaced by None, because XLA's compiler for CPUs does not accept that name.
    Without the name it computes the same result. Other parameters are returned unchanged.
    """
    if eqn.primitive.name == "top_k":  # before jax 0.8 it has no axis and uses the last one
        return {"axis": len(eqn.invars[0].aval.shape) - 1, **eqn.params}
    if eqn.params.get("precision") is lax.DotAlgorithmPreset.F16_F16_F32:
        # XLA's compiler for CPUs does not accept this algorithm by name. Without the name it
        # computes the same result.
        return {**eqn.params, "precision": None}
    return eqn.params


def top_k(x: Any, k: int, axis: int) -> tuple[Any, Any]:
    """Return the ``k`` largest entries along ``axis``, the largest first, and their indices.

    Before jax 0.8 `lax.top_k` has no axis, so ``axis`` is moved to the end and back.
    """
    if TOP_K_HAS_AXIS:
        values, positions = lax.top_k(x, k, axis=axis)
        return values, positions
    values, positions = lax.top_k(jnp.moveaxis(x, axis, -1), k)
    return jnp.moveaxis(values, -1, axis), jnp.moveaxis(positions, -1, axis)


def bind_params(primitive: Any, params: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Return the arguments of ``primitive.bind`` for the parameters of an equation of a jaxpr.

    The first result contains the functions that are passed before the operands. The second result
    contains the keyword arguments. Since jax 0.9 no primitive has such functions, so that the first
    result is empty.
    """
    bound = primitive.get_bind_params(dict(params))
    return bound if isinstance(bound, tuple) else ((), bound)


def bind_primitive(primitive: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """Apply a JAX primitive to operands, with the parameters of an equation of a jaxpr.

    The operands are concrete or traced arrays. The results are a list, also for a primitive with
    one result.
    """
    functions, bind_options = bind_params(primitive, params)
    results = primitive.bind(*functions, *operands, **bind_options)
    return list(results) if primitive.multiple_results else [results]
