"""What JAX has traced already, in place of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
from jax import export
from jax.extend.core import jaxpr_as_fun

from converter.errors import SpecError
from converter.frontend.specs import Spec

Called = tuple[Callable[..., Any], Sequence[Spec], Mapping[str, Any] | None]


def unstaged(
    fn: Callable[..., Any], specs: Sequence[Spec] | None, kwargs: Mapping[str, Any] | None
) -> Called:
    """A function, and the specs of its arguments.

    Those that are given; but what `jax.jit(fn).trace(...)` gives has its own.
    """
    if isinstance(fn, export.Exported):
        raise SpecError(
            "an Exported holds StableHLO and not the operations of JAX: convert the function that "
            "it was made from, or what jax.jit(function).trace(...) gives"
        )
    if not isinstance(fn, jax.stages.Traced):
        if specs is None:
            raise SpecError("specs must be a list with one entry per input, received None")
        return fn, specs, kwargs
    if specs is not None or kwargs:
        raise SpecError("a Traced has its own inputs: leave out specs and kwargs")
    run, out_tree = jaxpr_as_fun(fn.jaxpr), jax.tree.structure(fn.out_info)

    def call(*args: Any, **named: Any) -> Any:
        return jax.tree.unflatten(out_tree, run(*jax.tree.leaves((args, named))))

    structs = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype), fn.args_info)
    positional, named = structs
    return call, list(positional), named
