"""The jaxpr that says what an equation does, where it is a call or computes nothing itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax.extend import core as jex

from converter import decompositions
from converter.decompositions.computation import scatter_apply
from converter.decompositions.grouped_products import grouped_convolution
from converter.ir.dims import is_symbolic

# primitive -> the parameter that holds its jaxpr; each is a plain call at inference
CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
    "checkpoint": "jaxpr",
    "remat": "jaxpr",
    "remat2": "jaxpr",
    "call": "call_jaxpr",
    "composite": "jaxpr",
    "custom_jvp_call_jaxpr": "fun_jaxpr",
    "custom_partitioning": "call",
    "custom_vmap_call": "call",
    "eval_jaxpr": "jaxpr",
    "linear_call": "callee",
    "remat_opt": "fwd_jaxpr",
    "xla_metadata_call": "jaxpr",
}


def instead(eqn: Any, hints: frozenset[str]) -> Any:
    """A closed jaxpr of the equation's operands; ``None`` if a node has to stand for it.

    ``hints`` are the parameters that say nothing of the result.
    """
    name = eqn.primitive.name
    if name in CALLS:
        return _closed(eqn.params[CALLS[name]])
    if name in REPLACED and (replaced := REPLACED[name](eqn)) is not None:
        return replaced
    if eqn.params.get("out_dtype") is not None:
        return _widened(eqn)
    expansion = decompositions.find_decomposition(name)
    params = {k: v for k, v in eqn.params.items() if k not in hints}
    if expansion is None or not expansion.guards or expansion.unknown(params):
        return None
    return _calls_traced(eqn, expansion.called(params))


def _calls_traced(eqn: Any, fn: Callable[..., Any]) -> Any:
    """The jaxpr of a function of the equation's operands."""
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(fn)(*types)


def _kept_whole(eqn: Any) -> Any:
    """What a function is made of that jax >= 0.12 keeps whole, such as ``searchsorted``."""
    return _calls_traced(eqn, lambda *xs: eqn.primitive.to_lojax(*xs, **eqn.params))


def as_python(eqn: Any) -> Any:
    """What a primitive does where nothing transforms it, as most say in JAX."""
    params = eqn.primitive.get_bind_params(eqn.params)
    return _calls_traced(eqn, lambda *xs: eqn.primitive.impl(*xs, **params))


def _widened(eqn: Any) -> Any:
    """A product in a wider dtype is one of wider operands."""
    wide, params = eqn.params["out_dtype"], {**eqn.params, "out_dtype": None}
    return _calls_traced(
        eqn, lambda *xs: eqn.primitive.bind(*(x.astype(wide) for x in xs), **params)
    )


def _applied(eqn: Any) -> Any:
    """What ``x.at[i].apply(f)`` does, with ``f`` from the jaxpr of its scatter."""
    p = eqn.params
    if p["update_jaxpr"] is None:
        return None
    update = jex.jaxpr_as_fun(jex.ClosedJaxpr(p["update_jaxpr"], p["update_consts"]))

    def apply(x: jax.Array, indices: jax.Array, updates: jax.Array) -> jax.Array:
        return scatter_apply(
            lambda element: update(element, element)[0],
            x,
            indices,
            updates.shape,
            dimension_numbers=p["dimension_numbers"],
            mode=p["mode"],
            unique=p["unique_indices"],
        )

    return _calls_traced(eqn, apply)


def _solved(eqn: Any) -> Any:
    """What ``lax.custom_linear_solve`` solves with; the rest serves its derivatives."""
    lengths = eqn.params["const_lengths"]
    first = lengths.matvec + lengths.vecmat
    operands, last = slice(first, first + lengths.solve), sum(lengths)
    solve = jex.jaxpr_as_fun(eqn.params["jaxprs"].solve)
    return _calls_traced(eqn, lambda *xs: solve(*xs[operands], *xs[last:]))


def _on_one_device(eqn: Any) -> Any:
    """What each device does, if there is one."""
    return _closed(eqn.params["jaxpr"]) if eqn.params["mesh"].size == 1 else None


def _calls_grouped(eqn: Any) -> Any:
    """A convolution in a named number of groups."""
    p = {k: v for k, v in eqn.params.items() if k in _CONVOLVED}
    one = eqn.params["batch_group_count"] == 1
    if not (is_symbolic(p["feature_group_count"]) and one):
        return None
    dtype = eqn.outvars[0].aval.dtype
    return _calls_traced(eqn, lambda *xs: grouped_convolution(*(x.astype(dtype) for x in xs), **p))


_CONVOLVED = (
    *("window_strides", "padding", "lhs_dilation", "rhs_dilation"),
    *("dimension_numbers", "feature_group_count"),
)

REPLACED: dict[str, Callable[[Any], Any]] = {
    "call_hi_primitive": _kept_whole,
    "conv_general_dilated": _calls_grouped,
    "custom_linear_solve": _solved,
    **dict.fromkeys(("announce_jaxpr", "maybe_set", "vprim"), as_python),
    "scatter": _applied,
    "shard_map": _on_one_device,
}
"""What is inside of their parameters says what they do."""


def _closed(jaxpr: Any) -> Any:
    """Some primitives carry an open jaxpr (``remat``); close it."""
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, ())


def unchecked(eqn: Any) -> Any:
    """The branch that is left of a condition without those that raise; ``None`` if none does."""
    # Of Equinox's checks, which are conditions: files never take the branch that raises.
    branches = eqn.params["branches"]
    left = [branch for branch in branches if not _raises(branch)]
    return left[0] if len(left) == 1 < len(branches) else None


def _raises(branch: Any) -> bool:
    """Whether a branch calls Python of Equinox's: only its errors and breakpoints do."""
    called = [eqn for eqn in branch.jaxpr.eqns if eqn.primitive.name == "pure_callback"]
    return any(_is_equinox(eqn.params["callback"].callback_func) for eqn in called)


def _is_equinox(function: Any) -> bool:
    return bool(function.__module__.partition(".")[0] == "equinox")
