"""Registry of the functions that define primitives on complex numbers by real ones.

A function takes and returns a ``Pair`` for each complex array: its real and its imaginary part.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.decompositions.registered import Decorator, Expansion, register_as
from converter.ir import Value, ops
from converter.ir.complex_pairs import Pair, is_complex, join_parts, real_dtype, split_parts
from converter.ir.op import Linear
from converter.ir.scalars import scalar
from converter.jax_versions import bind_primitive

ComplexFunction = Callable[..., list[Any]]
"""Function of a primitive's operands that returns the list of its results."""

COMPLEX_RULES: dict[str, Expansion] = {}
"""The registered functions by the name of the primitive."""

REAL = " of real numbers"
"""Suffix of a primitive whose complex operands are all known to be real."""

CHANGES_SIGNS = frozenset({ops.neg, ops.scatter_sub, ops.sub})
"""Operations on both parts separately that may change the sign of a zero."""


def complex_rule(*primitives: str, ignores: Iterable[str] = (), packed: bool = False) -> Decorator:
    """Return a decorator that registers the function of one or more primitives on complex numbers.

    Arguments:
        ignores: names of parameters that the function ignores on purpose.
        packed: true if the function takes and returns real arrays with a last axis of two, not a
            `Pair`.
    """
    return register_as(COMPLEX_RULES.__setitem__, primitives, ignores, packed=packed)


def register_complex_rules(
    rows: Mapping[str, Callable[..., Any]], ignores: Iterable[str] = ()
) -> None:
    """Register functions that define primitives on complex numbers and read no parameters.

    ``rows`` has the functions by the name of the primitive. ``ignores`` are names of parameters
    that they ignore on purpose.
    """
    for primitive, function in rows.items():
        complex_rule(primitive, ignores=ignores)(function)


def rule_on_real_parts(
    primitive: Any,
    types: Sequence[Any],
    real: Sequence[bool],
    all_params: Mapping[str, Any],
    params: Mapping[str, Any],
) -> ComplexFunction | None:
    """Return a function that computes a primitive on complex numbers by real ones.

    The function takes the operands and returns the list of results. Complex arrays are represented
    by real ones with a last axis of two. A linear primitive is applied to the parts. Any other
    primitive needs a rule in `COMPLEX_RULES` that declares all of ``params``. Return None if there
    is no such rule.

    Arguments:
        primitive: the JAX primitive.
        types: types of the operands in JAX.
        real: for each operand, True if it is complex and known to be real.
        all_params: all parameters of the primitive.
        params: the parameters without hints, which do not affect the result.
    """
    complexes = [is_complex(aval.dtype) for aval in types]
    name, op = primitive.name, ops.op_by_name(primitive.name)
    apply_to_parts = partial(_apply_to_parts, partial(_bind, primitive, all_params))
    if op.linear is Linear.TOGETHER:
        result_is_real = op not in CHANGES_SIGNS and any(real) and list(real) == complexes
        return _on_pairs(apply_to_parts, complexes, real if result_is_real else None)
    if op.linear is Linear.SEPARATELY:
        return _on_pairs(partial(_multiply_pairs, primitive, all_params), complexes, real)
    if name == "div" and real[1]:
        return _on_pairs(apply_to_parts, complexes, (False, True))
    real_rule = COMPLEX_RULES.get(name + REAL) if all(real) else None
    rule = real_rule or COMPLEX_RULES.get(name)
    if rule is None or rule.unknown(params):
        return None
    function = rule.bind(params)
    if rule.packed:
        return lambda *xs: [function(*(split_parts(x).re if real_rule else x for x in xs))]
    return _on_pairs(lambda *xs: _as_list(function(*xs)), complexes)


def is_known_real(value: Value) -> bool:
    """Return True if the imaginary parts of a complex value in the graph are known to be zero.

    ``value`` represents the complex value as a real array whose last axis has the real and the
    imaginary part. The result is True for a constant whose imaginary parts are all zero, and for a
    concatenation whose last operand is the constant zero. It is False for every other value.
    """
    if value.kind == "const":
        return not np.any(value.const[..., 1])
    node = value.node
    return node is not None and node.op is ops.concatenate and scalar(node.inputs[-1]) == 0


def _on_pairs(
    function: ComplexFunction, complexes: Sequence[bool], real: Sequence[bool] | None = None
) -> ComplexFunction:
    """Return a function of real arrays with a last axis of two, for a function of pairs.

    Arguments:
        function: a function of one `Pair` for each complex operand, which returns a list. For an
            operand that is known to be real, its real part is passed instead.
        complexes: for each operand, True if it is complex. Other operands are passed unchanged.
        real: for each operand, True if it is complex and known to be real; None if none is.
    """

    def part(x: Any, is_pair: bool, is_real: bool) -> Any:
        return (split_parts(x).re if is_real else split_parts(x)) if is_pair else x

    def call(*xs: Any) -> list[Any]:
        is_real = real or [False] * len(xs)
        return [join_parts(y) for y in function(*map(part, xs, complexes, is_real))]

    return call


def _bind(primitive: Any, params: Mapping[str, Any], *xs: Any) -> list[Any]:
    """Return the results of a primitive for the operands ``xs``."""
    return bind_primitive(primitive, xs, params)


def _apply_to_parts(call: ComplexFunction, *xs: Any) -> list[Any]:
    """Return the results of ``call`` on the real parts and on the imaginary parts, as pairs.

    An operand that is no `Pair` is passed to both calls. If no operand is a `Pair`, there is one
    call, and the imaginary parts of the results are zero.
    """
    if not any(isinstance(x, Pair) for x in xs):
        return [Pair(y, jnp.zeros_like(y)) for y in call(*xs)]
    halves = [call(*(x[i] if isinstance(x, Pair) else x for x in xs)) for i in (0, 1)]
    return [Pair(re, im) for re, im in zip(*halves, strict=True)]


def _multiply_pairs(primitive: Any, params: Mapping[str, Any], x: Any, y: Any) -> list[Any]:
    """Return a list with the result of a product, such as ``dot_general``, of two complex operands.

    Operands that are known to be real are arrays, others are pairs. Two pairs need four products of
    real arrays, a pair and an array two, and two arrays one. The parameter
    ``preferred_element_type`` becomes real.
    """
    accumulated = params.get("preferred_element_type")
    real = {} if accumulated is None else {"preferred_element_type": real_dtype(accumulated)}
    call = partial(_bind, primitive, {**params, **real})
    if not (isinstance(x, Pair) and isinstance(y, Pair)):
        return _apply_to_parts(call, x, y)
    pairs = ((x.re, y.re), (x.im, y.im), (x.re, y.im), (x.im, y.re))
    (aa,), (bb,), (ab,), (ba,) = (call(*pair) for pair in pairs)
    return [Pair(aa - bb, ab + ba)]


def _as_list(results: Any) -> list[Any]:
    """Return a list of results for one result or for several. A `Pair` is one result."""
    is_one = isinstance(results, Pair) or not isinstance(results, (tuple, list))
    return [results] if is_one else list(results)
