"""Computations on scalars, as reductions and scatters have them, on whole arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import jax
from jax.extend import core as jex

Arrays: TypeAlias = tuple[jax.Array, ...]
Combine: TypeAlias = Callable[[Sequence[jax.Array], Sequence[jax.Array]], Arrays]


def only_operation(jaxpr: Any) -> str | None:
    """The name of the primitive that a jaxpr applies to its two scalars and nothing else."""
    if len(jaxpr.eqns) != 1 or len(jaxpr.invars) != 2:
        return None
    (eqn,) = jaxpr.eqns
    is_whole = set(eqn.invars) == set(jaxpr.invars) and eqn.outvars == jaxpr.outvars
    return str(eqn.primitive.name) if is_whole else None


def combination(jaxpr: Any, consts: Sequence[Any]) -> Combine:
    """What a jaxpr makes of two tuples of scalars, for tuples of arrays of one shape."""
    scalars = jex.jaxpr_as_fun(jex.ClosedJaxpr(jaxpr, consts))

    def combine(xs: Sequence[jax.Array], ys: Sequence[jax.Array]) -> Arrays:
        fn = scalars
        for _ in range(xs[0].ndim):
            fn = jax.vmap(fn)
        return tuple(fn(*xs, *ys))

    return combine
