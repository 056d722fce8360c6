"""Common parts of the recognisers of norms.

These are matching a value that is divided by a deviation and may be centred, and emitting a norm.

Programs compute centred values in two ways. Keras uses the second one for all of its norms.

    (x - mean) * s        and        x * s - mean * s + bias

``s`` is the inverse of a deviation, or the product of this inverse and a scale.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import permutations
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from converter.fuse import magnitudes
from converter.fuse.dependence import bound_scalar, record_scalar_fact
from converter.fuse.factors import Factors, factors_of, read_factors
from converter.fuse.match import MatchContext, operand, operand_orders, operands
from converter.ir import Node, Value, const, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Shape
from converter.ir.moves import emit_view
from converter.ir.op import Op
from converter.ir.rewrite import Editor
from converter.ir.scalars import scalar

NormTerm: TypeAlias = tuple[Op, View]
"""A term and the operation that adds or subtracts it (`ops.add` or `ops.sub`)."""


@dataclass(frozen=True)
class RootQuotient:
    """Quotient of ``numerator`` and a standard deviation, ``sqrt(second_moment + epsilon)``.

    ``second_moment`` is the variance or the mean square. ``epsilon`` is a number, which may be in
    a parameter.
    """

    second_moment: View
    epsilon: Value
    numerator: Factors

    def without(self, factor: View) -> RootQuotient:
        """Return the same quotient with one factor less in the numerator."""
        return replace(self, numerator=self.numerator.without(factor))

    def as_attribute(self, editor: Editor) -> float:
        """Return the epsilon as a number, and record that the rewrite relies on this number."""
        return record_scalar_fact(editor, self.epsilon)


@dataclass(frozen=True)
class CentredValue:
    """``numerator * (x - weight * average) / sqrt(second_moment + epsilon)``, plus or minus the
    ``terms``.

    ``quotient`` contains the numerator, the second moment and the epsilon. ``moved`` are the values
    that multiply both ``x`` and ``average`` in the program, and that are moved out of the
    difference.
    """

    x: View
    average: View
    weight: float
    quotient: RootQuotient
    terms: tuple[NormTerm, ...] = ()
    moved: tuple[Value, ...] = ()

    @property
    def near_miss_reason(self) -> str:
        """Reason for a near miss if ``may_move`` is False."""
        return f"{magnitudes.UNBOUNDED_REASON} multiply what a mean is taken off, and the mean"

    def may_move(self, context: MatchContext) -> bool:
        """Return True if the numbers of all ``moved`` values are moderate.

        The difference may then be computed before the multiplication.
        """
        return all(magnitudes.may_move(value, context, allow_zero=True) for value in self.moved)


@dataclass(frozen=True)
class Norm:
    """``numerator * x / sqrt(second_moment + epsilon)``, plus or minus the ``terms``. ``x`` may be
    centred.

    ``axes`` are the normalised axes of the view ``x``. ``shape`` is None if the view ``x`` has the
    shape of the matched node. If an axis is split into two for the norm, it is the shape with the
    split axis. ``moved`` are values as in `CentredValue`.
    """

    x: View
    axes: tuple[int, ...]
    quotient: RootQuotient
    terms: tuple[NormTerm, ...] = ()
    shape: Shape | None = None
    moved: tuple[Value, ...] = ()  # see `CentredValue` for its meaning


# --------------------------------------------------------------------------------- over a deviation


def match_root_quotients(node: Node, context: MatchContext) -> Iterator[RootQuotient]:
    """Yield every way to see the product ``node`` as another product divided by a deviation.

    An example is ``x * rsqrt(var + eps)``. ``node`` is the last multiplication or division. The
    second moment is not examined.
    """
    parts = factors_of(node, context)
    return match_quotients_by_root(parts, node.out.dtype)


def match_quotients_by_root(parts: Factors, dtype: np.dtype) -> Iterator[RootQuotient]:
    """Yield every way to see a product as another product divided by a deviation.

    A deviation is ``sqrt(v + eps)`` as a divisor, or ``rsqrt(v + eps)`` or a power as a factor,
    where ``eps`` is a known number. ``dtype`` is the dtype of the product. Nothing is yielded for a
    product with several divisors, for a coefficient that overflows or underflows in the dtype, for
    a product whose order matters in float16, or if an attribute of float32 cannot hold ``eps``
    exactly in float64.
    """
    if not parts.divisors:
        inverses = [f for f in parts.factors if f.op() is ops.rsqrt or _is_power(f, -0.5)]
    else:
        roots = [d for d in parts.divisors if d.op() is ops.sqrt or _is_power(d, 0.5)]
        inverses = roots if len(parts.divisors) == 1 else []
    is_real = jnp.issubdtype(dtype, jnp.floating)
    for inverse in inverses if is_real and is_in_normal_range(parts.coefficient, dtype) else ():
        numerator = replace(parts, divisors=()) if parts.divisors else parts.without(inverse)
        radicand = operand(inverse, 0)
        for number, second_moment in operand_orders(radicand) if radicand.op() is ops.add else ():
            epsilon = bound_scalar(number.base)
            if epsilon is None or not _is_attribute(float(epsilon), dtype):
                continue
            if _is_order_free(numerator, dtype):
                yield RootQuotient(second_moment, number.base, numerator)


def _is_power(view: View, exponent: float) -> bool:
    """Return True if a view is a value to the power of this constant exponent."""
    return view.op() is ops.pow and scalar(operand(view, 1).base) == exponent


def _is_attribute(number: float, dtype: np.dtype) -> bool:
    """Return True if an ONNX attribute can hold the number for an operator of this dtype.

    Attributes are float32. An operator in float64 therefore needs a number that is exactly
    representable in float32.
    """
    return dtype != np.float64 or float(np.float32(number)) == number


def _is_order_free(numerator: Factors, dtype: np.dtype) -> bool:
    """Return True if the order of the multiplications makes no difference.

    In float16, whether a product overflows may depend on the order of its factors. At most one
    factor or coefficient besides the normed value is therefore allowed.
    """
    other_factors = len(numerator.factors) - 1 + (numerator.coefficient != 1)
    return dtype.name != "float16" or other_factors <= 1


def is_in_normal_range(number: float, dtype: np.dtype) -> bool:
    """Return True if a number is zero, or neither underflows nor overflows in ``dtype``."""
    info = jnp.finfo(dtype)
    return number == 0 or float(info.tiny) <= abs(number) <= float(info.max)


# ------------------------------------------------------------------------------------------ centred


def match_centred(node: Node, context: MatchContext) -> Iterator[CentredValue]:
    """Yield every way to see a node as a centred value divided by a deviation.

    A sum or difference is matched as ``x * s - mean * s``, a product or quotient as ``(x - mean) *
    s``.
    """
    return (_match_centred_sum if node.op in _OPPOSITE else _match_centred_product)(node, context)


def _match_centred_product(node: Node, context: MatchContext) -> Iterator[CentredValue]:
    """Yield matches of ``(x - mean) * s``."""
    for quotient in match_root_quotients(node, context):
        for factor in quotient.numerator.factors:
            if factor.op() is ops.sub:
                x, average = operands(factor)
                yield CentredValue(x, average, 1.0, quotient.without(factor))


def _match_centred_sum(node: Node, context: MatchContext) -> Iterator[CentredValue]:
    """Yield matches of ``x * s - mean * s + bias``.

    The terms may be operands of ``node`` or of the sums and differences that are its operands.
    There may be several biases or none.
    """
    if not any(v.node is not None and v.node.op in _PRODUCTS for v in node.inputs):
        # This is not a centred value. Most sums add a bias to another value.
        return
    terms = _signed_terms(node, context)
    scaled = [term for term in terms if term[1].op() in _PRODUCTS]
    if len(scaled) < 2:
        return
    for scaled_x, scaled_mean in permutations(scaled, 2):
        other_terms = tuple(
            term for term in terms if term is not scaled_x and term is not scaled_mean
        )
        yield from _match_signed_pair(scaled_x, scaled_mean, other_terms, node, context)


_PRODUCTS = (ops.mul, ops.div, ops.neg)
_OPPOSITE = {ops.add: ops.sub, ops.sub: ops.add}


def _signed_terms(node: Node, context: MatchContext) -> list[NormTerm]:
    """Return the terms of a sum or difference, each with ``ops.add`` or ``ops.sub`` as its sign.

    An operand that is itself a sum or difference, with no other reader, is replaced by its two
    operands. These are not split further.
    """
    terms: list[NormTerm] = []
    left, right = operands(view_of(node.out))
    for sign, view in ((ops.add, left), (node.op, right)):
        op = view.op()
        if op in _OPPOSITE and context.single_use(view.base):
            first, second = operands(view)
            inner = op if sign is ops.add else _OPPOSITE[op]
            terms += [(sign, first), (inner, second)]
        else:
            terms.append((sign, view))
    return terms


def _match_signed_pair(
    scaled_x: NormTerm,
    scaled_mean: NormTerm,
    terms: tuple[NormTerm, ...],
    node: Node,
    context: MatchContext,
) -> Iterator[CentredValue]:
    """Yield matches of the sum of two signed terms as ``x * s - weight * mean * s``.

    ``scaled_x`` is ``x * s`` with its sign, ``scaled_mean`` the other product with its sign. The
    two products must differ in one factor each, ``x`` and ``mean``. ``terms`` are the other terms
    of the sum ``node``; they are part of the result.
    """
    first, second = (_signed_product(term, context) for term in (scaled_x, scaled_mean))
    shared = Counter(first.factors) & Counter(second.factors)
    own_factors = [list((Counter(parts.factors) - shared).elements()) for parts in (first, second)]
    if first.divisors != second.divisors or any(len(factors) != 1 for factors in own_factors):
        return
    common = Factors(first.coefficient, divisors=first.divisors)
    for factor in shared.elements():
        common = common.multiply(read_factors(factor, context))
    weight = -second.coefficient / first.coefficient
    for quotient in match_quotients_by_root(common, node.out.dtype):
        moved = tuple(factor.base for factor in quotient.numerator.factors)
        yield CentredValue(own_factors[0][0], own_factors[1][0], weight, quotient, terms, moved)


def _signed_product(term: NormTerm, context: MatchContext) -> Factors:
    """Return a term as a product, with a negative coefficient if the term is subtracted."""
    sign, view = term
    parts = read_factors(view, context)
    return replace(parts, coefficient=-parts.coefficient) if sign is ops.sub else parts


# ------------------------------------------------------------------------------------------ writing


def emit_norm(op: Op, node: Node, norm: Norm, editor: Editor) -> Value:
    """Emit the norm ``op`` with scale 1 over the normalised axes, then the other factors and terms.

    Return a value with the shape of ``node``.
    """
    shape = node.out.shape if norm.shape is None else norm.shape
    normed = editor.reshape(
        _emit_unscaled_norm(op, norm, shape, node.out.dtype, editor), node.out.shape
    )
    return emit_factors_and_terms(normed, norm, editor)


def _emit_unscaled_norm(op: Op, norm: Norm, shape: Shape, dtype: np.dtype, editor: Editor) -> Value:
    """Emit the norm ``op`` with scale 1. The normalised axes of x are moved last, and back
    afterwards.

    ``shape`` is the shape of the view ``norm.x``.
    """
    count = len(norm.axes)
    order = [i for i in range(len(norm.x.axes)) if i not in norm.axes] + list(norm.axes)
    value = editor.transpose(emit_view(editor, norm.x, shape, dtype), order)
    ones = editor.broadcast(const(1, dtype), value.shape[-count:], ())
    params = {"axis": value.rank - count, "epsilon": norm.quotient.as_attribute(editor)}
    normed = editor.add(op, [value, ones], value.shape, dtype, params)
    return editor.transpose(normed, [order.index(i) for i in range(len(order))])


def emit_factors_and_terms(normed: Value, norm: Norm | CentredValue, editor: Editor) -> Value:
    """Multiply a normalised value by the other factors of the matched product, and add the terms.

    ``normed`` is the output of the norm operator, which has the shape of the result. Record that
    the rewrite relies on moderate numbers in the ``moved`` values.
    """
    result, factors = normed, norm.quotient.numerator
    for value in norm.moved:
        magnitudes.record_magnitude_fact(editor, value, allow_zero=True)
    for factor in factors.factors:
        result = editor.binary(ops.mul, result, _emit_broadcastable(editor, factor, normed))
    if factors.coefficient != 1:
        result = editor.binary(ops.mul, result, const(factors.coefficient, normed.dtype))
    for op, term in norm.terms:
        result = editor.binary(op, result, _emit_broadcastable(editor, term, normed))
    return result


def _emit_broadcastable(editor: Editor, view: View, result: Value) -> Value:
    """Emit a view in a shape that broadcasts to ``result``, with size 1 where nothing varies.

    The dtype is that of ``result``.
    """
    return emit_view(editor, view, view.unbroadcast_shape(result.shape), result.dtype)
