"""A primitive of complex numbers as a function of arrays as the graph has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.decompositions.complex.complex_rules import (
    BILINEAR,
    EACH,
    EXPANDED,
    REAL,
    SIGNED,
    find_complex_rule,
)
from converter.ir import Value, ops
from converter.ir.complex_pairs import Pair, is_complex, joined, real_dtype, split
from converter.ir.scalars import scalar

ComplexFunction = Callable[..., list[Any]]


def in_reals(
    primitive: Any,
    types: Sequence[Any],
    real: Sequence[bool],
    whole: Mapping[str, Any],
    params: Mapping[str, Any],
) -> ComplexFunction | None:
    """What a primitive does to operands of these types; ``None`` if that is not known.

    ``real`` says which complex operands are known to be real numbers. ``params`` are those of the
    primitive's parameters that say something of the result, ``whole`` all of them.
    """
    complexes = [is_complex(aval.dtype) for aval in types]
    name = primitive.name
    if name in EACH:
        stays = name not in SIGNED and any(real) and list(real) == complexes
        each = _real(primitive, whole) if stays else _each(primitive, whole)
        return _on_pairs(each, complexes, real if stays else None)
    if name in BILINEAR:
        return _on_pairs(_rewriting_product(primitive, whole), complexes, real)
    if name == "div" and real[1]:
        return _on_pairs(_each(primitive, whole), complexes, (False, True))
    of_real = find_complex_rule(name + REAL) if all(real) else None
    found = of_real or find_complex_rule(name)
    if found is None or not found.knows(params):
        return None
    read = {k: v for k, v in params.items() if k in found.reads}
    if found.packed:
        return lambda *xs: [found.function(*(split(x).re if of_real else x for x in xs), **read)]
    return _on_pairs(lambda *xs: _listed(found.function(*xs, **read)), complexes)


def is_expanded(name: str, types: Sequence[Any]) -> bool:
    """Whether an expansion may be taken for operands of these types."""
    return name in EXPANDED or not any(is_complex(aval.dtype) for aval in types)


def is_known_real(value: Value) -> bool:
    """Whether the imaginary parts of a value in the graph are known to be zero."""
    if value.kind == "const":
        return not np.any(value.const[..., 1])
    node = value.node
    return node is not None and node.op is ops.concatenate and scalar(node.inputs[-1]) == 0


def _on_pairs(
    function: ComplexFunction, complexes: Sequence[bool], real: Sequence[bool] | None = None
) -> ComplexFunction:
    """The function of the operands' parts; of those known to be real only one is read."""

    def part(x: Any, is_pair: bool, is_real: bool) -> Any:
        return (split(x).re if is_real else split(x)) if is_pair else x

    def call(*xs: Any) -> list[Any]:
        known = real or [False] * len(xs)
        return [joined(y) for y in function(*map(part, xs, complexes, known))]

    return call


def _rewriting_bound(primitive: Any, params: Mapping[str, Any]) -> ComplexFunction:
    def call(*xs: Any) -> list[Any]:
        found = primitive.bind(*xs, **primitive.get_bind_params(dict(params)))
        return list(found) if primitive.multiple_results else [found]

    return call


def _each(primitive: Any, params: Mapping[str, Any]) -> ComplexFunction:
    """The primitive on the real parts, and on the imaginary ones."""
    call = _rewriting_bound(primitive, params)
    return lambda *xs: _each_of(call, *xs)


def _each_of(call: ComplexFunction, *xs: Any) -> list[Any]:
    halves = [call(*(x[i] if isinstance(x, Pair) else x for x in xs)) for i in (0, 1)]
    return [Pair(re, im) for re, im in zip(*halves, strict=True)]


def _real(primitive: Any, params: Mapping[str, Any]) -> ComplexFunction:
    """The primitive on real numbers, whose imaginary parts it leaves zero."""
    call = _rewriting_bound(primitive, params)
    return lambda *xs: [Pair(y, jnp.zeros_like(y)) for y in call(*xs)]


def _rewriting_product(primitive: Any, params: Mapping[str, Any]) -> ComplexFunction:
    """Four products of real numbers, or two where an operand is real, or one."""
    accumulated = params.get("preferred_element_type")
    real = {} if accumulated is None else {"preferred_element_type": real_dtype(accumulated)}
    call = _rewriting_bound(primitive, {**params, **real})

    def product(x: Any, y: Any) -> list[Any]:
        pairs = isinstance(x, Pair) + isinstance(y, Pair)
        if pairs == 1:
            return _each_of(call, x, y)
        if not pairs:
            (both,) = call(x, y)
            return [Pair(both, jnp.zeros_like(both))]
        (aa,), (bb,), (ab,), (ba,) = (
            call(*pair) for pair in ((x.re, y.re), (x.im, y.im), (x.re, y.im), (x.im, y.re))
        )
        return [Pair(aa - bb, ab + ba)]

    return product


def _listed(found: Any) -> list[Any]:
    is_one = isinstance(found, Pair) or not isinstance(found, (tuple, list))
    return [found] if is_one else list(found)
