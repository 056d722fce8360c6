"""What the norms share: a value divided by a deviation, perhaps centred, and how one is written.

Centred values are written in two ways; Keras writes all of its norms the second way.

    (x - mean) * s        and        x * s - mean * s + bias

``s`` is the inverse of a deviation, perhaps times a scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from converter.fuse import magnitudes
from converter.fuse.dependence import bound_scalar, rely_on_scalar
from converter.fuse.match import Uses, operand, operands, pair
from converter.fuse.product_terms import Product, product, product_of
from converter.ir import Node, Value, const, ops
from converter.ir.axes import View, along
from converter.ir.dims import Shape
from converter.ir.moves import write
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

NormTerm: TypeAlias = tuple[Op, View]
"""What is added or subtracted (`ops.add` or `ops.sub`)."""


@dataclass(frozen=True)
class NormDeviation:
    """``sqrt(spread + epsilon)``, by which ``rest`` is divided."""

    spread: View
    epsilon: Value
    rest: Product

    def without(self, factor: View) -> NormDeviation:
        """Terms with that factor of the rest taken out."""
        return replace(self, rest=Product(self.rest.coefficient, self.rest.without(factor)))

    def as_attribute(self, editor: Editor) -> float:
        """The epsilon as a number, which is relied on from now on."""
        return rely_on_scalar(editor, self.epsilon)


@dataclass(frozen=True)
class CentredValue:
    """``x - weight * average`` over the deviation, times its rest, and then the ``terms``."""

    x: View
    average: View
    weight: float
    deviation: NormDeviation
    terms: tuple[NormTerm, ...] = ()
    moved: tuple[Value, ...] = ()  # what multiplied both ``x`` and ``average``

    @property
    def reason(self) -> str:
        """Why it is not centred before it is multiplied."""
        return f"{magnitudes.UNBOUNDED} multiply what a mean is taken off, and the mean"

    def may_move(self, uses: Uses) -> bool:
        return all(magnitudes.may_move(value, uses, nothing=True) for value in self.moved)


@dataclass(frozen=True)
class Norm:
    """``x`` over its deviation along ``axes``, times its rest, and then the ``terms``.

    ``shape`` is that of ``x`` along its logical axes, if one of the node's was split for it.
    """

    x: View
    axes: tuple[int, ...]
    deviation: NormDeviation
    terms: tuple[NormTerm, ...] = ()
    shape: Shape | None = None
    moved: tuple[Value, ...] = ()  # see `CentredValue`


# --------------------------------------------------------------------------------- over a deviation


def norm_deviations(node: Node, uses: Uses) -> Iterator[NormDeviation]:
    """Every way to see a node as something divided by a deviation."""
    parts = product_of(node, uses)
    return divided_by_deviation(parts, node.out.dtype)


def divided_by_deviation(parts: Product, dtype: np.dtype) -> Iterator[NormDeviation]:
    """Every way to see a product as something divided by a deviation."""
    if not parts.divisors:
        inverses = [f for f in parts.factors if f.op() is ops.rsqrt or _is_power(f, -0.5)]
    else:
        roots = [d for d in parts.divisors if d.op() is ops.sqrt or _is_power(d, 0.5)]
        inverses = roots if len(parts.divisors) == 1 else []
    real = jnp.issubdtype(dtype, jnp.floating)
    for inverse in inverses if real and fits(parts.coefficient, dtype) else ():
        factors = parts.factors if parts.divisors else parts.without(inverse)
        quotient = Product(parts.coefficient, factors)
        inside = operand(inverse, 0)
        for number, spread in pair(inside) if inside.op() is ops.add else ():
            epsilon = bound_scalar(number.base)
            if epsilon is None or not _is_attribute(float(epsilon), dtype):
                continue
            if _in_any_order(parts, factors, dtype):
                yield NormDeviation(spread, number.base, quotient)


def _is_power(view: View, exponent: float) -> bool:
    return view.op() is ops.pow and scalar(operand(view, 1).base) == exponent


def _is_attribute(number: float, dtype: np.dtype) -> bool:
    """Whether ONNX's attributes, which are float32, hold the number for this dtype."""
    return dtype != np.float64 or float(np.float32(number)) == number


def _in_any_order(parts: Product, factors: Sequence[View], dtype: np.dtype) -> bool:
    """Whether it makes no difference what the result is multiplied by first.

    In float16 one order may overflow and another not.
    """
    others = len(factors) - 1 + (parts.coefficient != 1)
    return dtype.name != "float16" or others <= 1


def fits(number: float, dtype: np.dtype) -> bool:
    """Whether a number can be written in ``dtype`` without becoming zero or infinite."""
    info = jnp.finfo(dtype)
    return number == 0 or float(info.tiny) <= abs(number) <= float(info.max)


# ------------------------------------------------------------------------------------------ centred


def centred(node: Node, uses: Uses) -> Iterator[CentredValue]:
    """Every way to see a node as a centred value that is divided by a deviation."""
    return (_sum if node.op in _FLIPPED else _centred_product)(node, uses)


def _centred_product(node: Node, uses: Uses) -> Iterator[CentredValue]:
    """``(x - mean) * s``"""
    for deviation in norm_deviations(node, uses):
        for factor in deviation.rest.factors:
            if factor.op() is ops.sub:
                x, average = operands(factor)
                yield CentredValue(x, average, 1.0, deviation.without(factor))


def _sum(node: Node, uses: Uses) -> Iterator[CentredValue]:
    """``x * s - mean * s + bias``"""
    if not any(v.node is not None and v.node.op in _PRODUCTS for v in node.inputs):
        return  # most sums are of a bias
    terms = _terms(node, uses)
    scaled = [term for term in terms if term[1].op() in _PRODUCTS]
    if len(scaled) < 2:
        return
    for one, other in permutations(scaled, 2):
        other_terms = tuple(term for term in terms if term is not one and term is not other)
        yield from _difference(one, other, other_terms, node, uses)


_PRODUCTS = (ops.mul, ops.div, ops.neg)
_FLIPPED = {ops.add: ops.sub, ops.sub: ops.add}


def _terms(node: Node, uses: Uses) -> list[NormTerm]:
    """What is added and subtracted: the operands, and those of operands that are sums."""
    terms: list[NormTerm] = []
    left, right = operands(along(node.out))
    for sign, view in ((ops.add, left), (node.op, right)):
        op = view.op()
        if op in _FLIPPED and uses.single_use(view.base):
            first, second = operands(view)
            inner = op if sign is ops.add else _FLIPPED[op]
            terms += [(sign, first), (inner, second)]
        else:
            terms.append((sign, view))
    return terms


def _difference(
    one: NormTerm, other: NormTerm, terms: tuple[NormTerm, ...], node: Node, uses: Uses
) -> Iterator[CentredValue]:
    """``x * s - mean * s``, if the two have all but one factor each in common."""
    first, second = (_signed(term, uses) for term in (one, other))
    shared = Counter(first.factors) & Counter(second.factors)
    own = [list((Counter(parts.factors) - shared).elements()) for parts in (first, second)]
    alike = first.divisors == second.divisors and first.coefficient != 0
    if not alike or any(len(factors) != 1 for factors in own):
        return
    whole = Product(first.coefficient, [], list(first.divisors))
    for factor in shared.elements():
        inner = product(factor, uses)
        whole.coefficient *= inner.coefficient
        whole.factors += inner.factors
        whole.divisors += inner.divisors
    weight = -second.coefficient / first.coefficient
    for deviation in divided_by_deviation(whole, node.out.dtype):
        moved = tuple(factor.base for factor in deviation.rest.factors)
        yield CentredValue(own[0][0], own[1][0], weight, deviation, terms, moved)


def _signed(term: NormTerm, uses: Uses) -> Product:
    sign, view = term
    parts = product(view, uses)
    parts.coefficient *= -1 if sign is ops.sub else 1
    return parts


# ------------------------------------------------------------------------------------------ writing


def build_norm(op: Op, node: Node, norm: Norm, editor: Editor) -> Value:
    """``op`` over the logical axes of x, without scale, times and plus what else there is."""
    shape = node.out.shape if norm.shape is None else norm.shape
    normed = editor.reshape(_bare(op, norm, shape, node.out.dtype, editor), node.out.shape)
    return dressed(normed, norm, editor)


def _bare(op: Op, norm: Norm, shape: Shape, dtype: np.dtype, editor: Editor) -> Value:
    """``op`` over the logical axes of x, which have that shape, without scale."""
    count = len(norm.axes)
    order = [i for i in range(len(norm.x.axes)) if i not in norm.axes] + list(norm.axes)
    value = editor.transpose(write(editor, norm.x, shape, dtype), order)
    ones = editor.broadcast(const(1, dtype), value.shape[-count:], ())
    params = {"axis": value.rank - count, "epsilon": norm.deviation.as_attribute(editor)}
    normed = editor.add(op, [value, ones], value.shape, dtype, params)
    return editor.transpose(normed, [order.index(i) for i in range(len(order))])


def dressed(normed: Value, norm: Norm | CentredValue, editor: Editor) -> Value:
    """Normalised value times what else there is of a product, and plus the terms."""
    result, factors = normed, norm.deviation.rest
    for value in norm.moved:
        magnitudes.rely_on_size(editor, value, nothing=True)
    for factor in factors.factors:
        result = editor.binary(ops.mul, result, _norm_spread(editor, factor, normed))
    if factors.coefficient != 1:
        result = editor.binary(ops.mul, result, const(factors.coefficient, normed.dtype))
    for op, term in norm.terms:
        result = editor.binary(op, result, _norm_spread(editor, term, normed))
    return result


def _norm_spread(editor: Editor, view: View, like: Value) -> Value:
    return write(editor, view, view.bare(like.shape), like.dtype)
