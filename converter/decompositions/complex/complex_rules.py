"""What primitives do to complex numbers, by primitive.

A function takes the operands by position, a ``Pair`` for each that is complex, and the primitive's
parameters by keyword; it gives the result, a ``Pair`` if that is complex, or one for each output.
It owns every parameter, as an expansion does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from converter.decompositions.registered import DecompositionFunction, Expansion, always, read_by
from converter.ir import Value, ops
from converter.ir.complex_pairs import Pair, is_complex, joined, real_dtype, split
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class ComplexMeaning(Expansion):
    """A function of pairs, or a ``packed`` one of arrays as the graph has them."""

    packed: bool = False


_known: dict[str, ComplexMeaning] = {}


def meaning(
    *primitives: str, ignores: Iterable[str] = (), packed: bool = False
) -> Callable[[DecompositionFunction], DecompositionFunction]:
    """Register a function for one or more primitives; what it ignores is given by name."""

    def register(function: DecompositionFunction) -> DecompositionFunction:
        for primitive in primitives:
            _known[primitive] = ComplexMeaning(
                function, read_by(function), frozenset(ignores), always, packed=packed
            )
        return function

    return register


def find_complex_rule(primitive: str) -> ComplexMeaning | None:
    """What a primitive does to complex numbers."""
    return _known.get(primitive)


def complex_primitives() -> frozenset[str]:
    """Every primitive that complex numbers can be given to."""
    return frozenset(_known) | EACH | BILINEAR | EXPANDED


REAL = " of real numbers"
"""What is added to the name of a primitive whose complex operands are all known to be real."""

EACH = frozenset(
    {
        *("add", "add_any", "broadcast_in_dim", "concatenate", "copy", "copy_p", "cumsum"),
        "device_put",
        *("dynamic_slice", "dynamic_update_slice", "expand_dims", "name", "neg", "pad"),
        *("pvary", "reduce_sum", "reduce_window_sum", "reshape", "rev", "scatter", "scatter-add"),
        *("scatter-sub", "select_n", "slice", "split", "squeeze", "stack", "stop_gradient"),
        *("sub", "tile", "transpose", "unstack"),
    }
)
"""Primitives that do the same to the real and to the imaginary parts, each by themselves."""

SIGNED = frozenset({"neg", "scatter-sub", "sub"})
"""Those of them that may change the sign of a zero."""

BILINEAR = frozenset({"conv_general_dilated", "dot_general", "mul"})
"""Primitives that are products of both operands, or sums of such."""

EXPANDED = frozenset(
    {
        *("cholesky", "eigh", "geqp3", "geqrf", "householder_product", "lu", "ormqr", "qr"),
        *("reduce", "reduce_window", "svd", "triangular_solve", "tridiagonal_solve"),
    }
)
"""Expansions that hold for complex numbers too."""


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
