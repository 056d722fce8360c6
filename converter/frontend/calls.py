"""Find the jaxpr that replaces an equation of a call or of a user's primitive."""

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import jax
from jax.extend import core as jex
from jax.extend.core import Primitive

from converter import decompositions
from converter.decompositions.computation import scatter_apply
from converter.decompositions.grouped_products import grouped_convolution
from converter.errors import UnsupportedError
from converter.frontend.array_forms import special_kind
from converter.frontend.diagnostics import DIMENSION_ERRORS, first_line
from converter.ir import ops, registry
from converter.ir.dims import is_symbolic
from converter.jax_versions import bind_params

_CALL_PARAMETERS = {
    "jaxpr": "jit remat2 composite eval_jaxpr xla_metadata_call",
    "call_jaxpr": "closed_call custom_jvp_call custom_vjp_call call",
    "fun_jaxpr": "custom_jvp_call_jaxpr",
    "call": "custom_partitioning custom_vmap_call",
    "callee": "linear_call",
    "fwd_jaxpr": "remat_opt",
}
CALLS = {name: parameter for parameter, names in _CALL_PARAMETERS.items() for name in names.split()}
"""The parameter with the jaxpr, by primitive. All of these are plain calls at inference."""


def replacement_jaxpr(eqn: Any, hints: frozenset[str]) -> Any:
    """Return a closed jaxpr that computes an equation's outputs from its operands.

    It is the jaxpr of a call (``jit``, ``custom_jvp_call`` …), or a traced function: that of a
    primitive in ``REPLACEMENTS``, a product of wider operands for ``out_dtype``, or an expansion
    that is traced at once (``Expansion.is_traced_early``). None means that the equation becomes a
    node.

    Arguments:
        eqn: an equation of a jaxpr.
        hints: names of parameters that do not affect the result. They are not passed to expansions.
    """
    name = eqn.primitive.name
    if name in CALLS:
        return _closed(eqn.params[CALLS[name]])
    if name in REPLACEMENTS and (replaced := REPLACEMENTS[name](eqn)) is not None:
        return replaced
    if eqn.params.get("out_dtype") is not None:
        return _widen_operands(eqn)
    expansion = decompositions.find_decomposition(name)
    params = {k: v for k, v in eqn.params.items() if k not in hints}
    if expansion is None or not expansion.is_traced_early or expansion.unknown(params):
        return None
    return _trace_operands(eqn, expansion.bind(params))


def _trace_operands(eqn: Any, fn: Callable[..., Any]) -> Any:
    """Return the closed jaxpr of ``fn`` for operands of the equation's types."""
    types = [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]
    return jax.make_jaxpr(fn)(*types)


def _trace_high_level(eqn: Any) -> Any:
    """Return the closed jaxpr of a function that jax >= 0.12 keeps as one primitive,
    ``call_hi_primitive``, such as ``searchsorted``."""
    return _trace_operands(eqn, lambda *xs: eqn.primitive.to_lojax(*xs, **eqn.params))


def trace_implementation(eqn: Any) -> Any:
    """Return the closed jaxpr of the Python function that is registered as the primitive's
    implementation (``impl``)."""
    functions, params = bind_params(eqn.primitive, eqn.params)
    return _trace_operands(eqn, lambda *xs: eqn.primitive.impl(*functions, *xs, **params))


def _widen_operands(eqn: Any) -> Any:
    """Return the closed jaxpr of a product whose operands are converted first to its parameter
    ``out_dtype``."""
    wider_dtype, params = eqn.params["out_dtype"], {**eqn.params, "out_dtype": None}
    return _trace_operands(
        eqn, lambda *xs: eqn.primitive.bind(*(x.astype(wider_dtype) for x in xs), **params)
    )


def _trace_scatter_apply(eqn: Any) -> Any:
    """Return the closed jaxpr of ``x.at[i].apply(f)``, or None for a scatter that writes its
    updates.

    The function ``f`` is the jaxpr in the parameter ``update_jaxpr``.

    Raises:
        UnsupportedError: ``f`` returns another dtype. JAX traces this, but does not compile it.
    """
    p = eqn.params
    if p["update_jaxpr"] is None:
        return None
    dtype, result_dtype = eqn.invars[0].aval.dtype, p["update_jaxpr"].outvars[0].aval.dtype
    if dtype != result_dtype:
        raise UnsupportedError(
            f"the function of x.at[…].apply returns {result_dtype} for {dtype}, which JAX itself "
            f"does not compile; convert x before it, or the result of the function to {dtype}"
        )
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

    return _trace_operands(eqn, apply)


def _trace_solve(eqn: Any) -> Any:
    """Return the closed jaxpr of the solver in ``lax.custom_linear_solve``.

    The operands are constants of four functions, then the right side. The other three functions
    serve derivatives only.
    """
    lengths = eqn.params["const_lengths"]
    solve_start = lengths.matvec + lengths.vecmat
    operands, constants_end = slice(solve_start, solve_start + lengths.solve), sum(lengths)
    solve = jex.jaxpr_as_fun(eqn.params["jaxprs"].solve)
    return _trace_operands(eqn, lambda *xs: solve(*xs[operands], *xs[constants_end:]))


def _single_device_jaxpr(eqn: Any) -> Any:
    """Return the closed jaxpr that ``shard_map`` runs on each device if its mesh has one device,
    else None."""
    return _closed(eqn.params["jaxpr"]) if eqn.params["mesh"].size == 1 else None


def _trace_grouped_convolution(eqn: Any) -> Any:
    """Return the closed jaxpr of a convolution whose number of feature groups is a symbolic
    dimension, as sums of products; otherwise None. ONNX's convolution has a fixed number of
    groups."""
    names = "window_strides padding lhs_dilation rhs_dilation dimension_numbers feature_group_count"
    p = {name: eqn.params[name] for name in names.split()}
    is_single_batch_group = eqn.params["batch_group_count"] == 1
    if not (is_symbolic(p["feature_group_count"]) and is_single_batch_group):
        return None
    dtype = eqn.outvars[0].aval.dtype
    return _trace_operands(
        eqn, lambda *xs: grouped_convolution(*(x.astype(dtype) for x in xs), **p)
    )


REPLACEMENTS: dict[str, Callable[[Any], Any]] = {
    "call_hi_primitive": _trace_high_level,
    "conv_general_dilated": _trace_grouped_convolution,
    "custom_linear_solve": _trace_solve,
    **dict.fromkeys(("announce_jaxpr", "maybe_set", "vprim"), trace_implementation),
    "scatter": _trace_scatter_apply,
    "shard_map": _single_device_jaxpr,
}
"""Functions by primitive that return the closed jaxpr of an equation, or None if another case of
`replacement_jaxpr` applies."""


def _closed(jaxpr: Any) -> Any:
    """Return a closed jaxpr; an open one, as ``remat`` has it, gets no constants."""
    return jaxpr if isinstance(jaxpr, jex.ClosedJaxpr) else jex.ClosedJaxpr(jaxpr, ())


def branch_without_checks(eqn: Any) -> Any:
    """Return the branch of a conditional whose other branches all raise errors of Equinox, else
    None.

    Equinox's checks are conditionals, and a file never takes a branch that raises. The result is
    None unless exactly one of several branches raises no such error.
    """
    branches = eqn.params["branches"]
    remaining = [branch for branch in branches if not _raises(branch)]
    return remaining[0] if len(remaining) == 1 < len(branches) else None


def _raises(branch: Any) -> bool:
    """Return True if a branch calls a Python function of Equinox, as Equinox's errors and
    breakpoints do."""
    called = [eqn for eqn in branch.jaxpr.eqns if eqn.primitive.name == "pure_callback"]
    modules = (eqn.params["callback"].callback_func.__module__ for eqn in called)
    return any(module.partition(".")[0] == "equinox" for module in modules)


# --------------------------------------------------------------------------- users' primitives

# A user's primitive may have any name, so that primitives are identified by object.

PACKAGES = ("jax", "equinox")
"""Packages whose primitives are attributes of their modules, which are all imported with them."""

_is_users: WeakKeyDictionary[Primitive, bool] = WeakKeyDictionary()


def is_user_primitive(primitive: Primitive) -> bool:
    """Return True if a primitive belongs neither to JAX nor to Equinox: no module of theirs has it
    as an attribute."""
    if primitive not in _is_users:
        _is_users.update(dict.fromkeys(_known_primitives(), False))
    return _is_users.setdefault(primitive, True)


def _known_primitives() -> Iterator[Primitive]:
    """Yield the primitives that are attributes of imported modules of JAX and Equinox."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in PACKAGES and module is not None:
            yield from (v for v in vars(module).values() if isinstance(v, Primitive))


MAX_RECURSION = 8
"""Number of times that a primitive may be bound in its own implementation, as a recursive solver
does."""


def user_primitive_jaxpr(eqn: Any, enclosing: Sequence[Any]) -> tuple[Any, str]:
    """Return the closed jaxpr of the implementation of a user's primitive, and a reason for a
    refusal.

        (jaxpr, "")     the implementation could be traced
        (None, "")      a rule or expansion is registered, so that the primitive becomes a node
        (None, reason)  there is neither a rule nor an implementation that can be traced

    Arguments:
        eqn: the equation that applies the primitive.
        enclosing: the primitives whose implementations are being traced, once for each level. A
            primitive whose implementation binds the primitive itself `MAX_RECURSION` times is
            refused, because with JAX's generic dispatch this recursion would never end.
    """
    primitive = eqn.primitive
    if _is_registered(eqn):
        return None, ""
    reason = "it binds the primitive itself"
    if enclosing.count(primitive) < MAX_RECURSION:
        try:
            return trace_implementation(eqn), ""
        except DIMENSION_ERRORS as error:
            reason = first_line(error)
    return None, (
        f"primitive '{primitive.name}' cannot be written: there is no rule for it (converter.rule "
        f"and converter.expansion register others), and its impl cannot be traced: {reason}"
    )


def _is_registered(eqn: Any) -> bool:
    """Return True if a lowering rule, or an expansion that applies, is registered for a user's
    primitive.

    Return False if an operand or result is a key or complex number, which have another form in the
    graph.
    """
    op, operands = ops.user_op(eqn.primitive), [v.aval for v in eqn.invars]
    if special_kind((*operands, *(v.aval for v in eqn.outvars))):
        return False
    expansion = decompositions.find_decomposition(op)
    is_expanded = (
        expansion and not expansion.unknown(eqn.params) and expansion.applies(operands, eqn.params)
    )
    return bool(is_expanded or registry.registered_rules.find(op))
