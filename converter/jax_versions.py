"""Names and forms that differ between the versions of JAX, from 0.7.2 on. No other room asks."""

from collections.abc import Mapping, Sequence
from typing import Any

try:
    from jax import enable_x64
except ImportError:  # before jax 0.8
    from jax.experimental import enable_x64  # type: ignore[attr-defined, no-redef]

try:
    from jax.errors import InconclusiveDimensionOperation
except ImportError:  # before jax 0.10
    from jax.core import InconclusiveDimensionOperation

__all__ = ["InconclusiveDimensionOperation", "bind_params", "bind_primitive", "enable_x64"]


def bind_params(primitive: Any, params: Mapping[str, Any]) -> tuple[Sequence[Any], dict[str, Any]]:
    """Functions that ``bind`` takes before the operands, and parameters, of an equation's own.

    Since jax 0.9 no primitive takes such functions.
    """
    bound = primitive.get_bind_params(dict(params))
    return bound if isinstance(bound, tuple) else ((), bound)


def bind_primitive(primitive: Any, operands: Sequence[Any], params: Mapping[str, Any]) -> list[Any]:
    """Results of a primitive for operands, with the parameters of an equation."""
    functions, rest = bind_params(primitive, params)
    results = primitive.bind(*functions, *operands, **rest)
    return list(results) if primitive.multiple_results else [results]
