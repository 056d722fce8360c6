"""GELU, exact and with tanh [Hendrycks & Gimpel, arXiv:1606.08415].

    x/2 * (1 + erf(x / sqrt(2)))  =  x/2 * erfc(-x / sqrt(2))        = gelu(x, approximate=False)
    x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))              = gelu(x, approximate=True)

The products and the arguments of erf, erfc and tanh are compared in their normal forms, so that the
constants and x may be multiplied in any order.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from converter.fuse.factors import factors_of, read_factors
from converter.fuse.match import (
    MatchContext,
    MatchedOperation,
    emit_matched_operation,
    operand,
    operands,
    recogniser_from,
)
from converter.fuse.normal_form import normal_form
from converter.fuse.polynomials import Terms
from converter.ir import Node, ops
from converter.ir.axes import View, view_of
from converter.ir.dtypes import is_float
from converter.ir.op import Op
from converter.ir.scalars import scalar

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


@dataclass(frozen=True)
class GeluForm:
    """A way to write GELU: ``sum(product[n] * x * f^n)`` with ``f = op(sum(argument[n] * x^n))``.

    ``product`` and ``argument`` contain the coefficients by the power n.
    """

    op: Op
    argument: dict[int, float]
    product: dict[int, float]
    approximate: bool = False


GELU_FORMS = (
    GeluForm(ops.erf, {1: SQRT_HALF}, {0: 0.5, 1: 0.5}),
    GeluForm(ops.erfc, {1: -SQRT_HALF}, {1: 0.5}),
    GeluForm(
        ops.tanh, {1: SQRT_2_OVER_PI, 3: SQRT_2_OVER_PI * CUBIC}, {0: 0.5, 1: 0.5}, approximate=True
    ),
)


def match_gelu(node: Node, context: MatchContext) -> MatchedOperation | None:
    """Match a product of a value x and its standard normal distribution function Phi(x).

    Return x and the parameter ``approximate``: True for the formula with tanh, False for the one
    with erf or erfc. Return None for other products, or if the runtime has no Gelu of this dtype.
    """
    if not (is_float(node.out.dtype) and context.has_operator("Gelu", node.out.dtype)):
        return None
    product, parts = view_of(node.out), factors_of(node, context)
    if len(parts.factors) != 2 or parts.divisors:
        return None
    for x, gate in (parts.factors, parts.factors[::-1]):
        for function, form in _find_functions(gate, context):
            is_of_x = any(part.base is x.base for part in _iter_arithmetic(operand(function, 0)))
            if is_of_x and _is_gelu(product, x, function, form, context):
                return MatchedOperation(x, {"approximate": form.approximate})
    return None


def _find_functions(gate: View, context: MatchContext) -> Iterator[tuple[View, GeluForm]]:
    """Yield the result of erf, erfc or tanh in a gate, with each form of GELU that has it.

    The gate is such a result, or the sum of a number and a multiple of one.
    """
    terms = operands(gate) if gate.op() in _SUMS else []
    multiples = [term for term in terms if scalar(term.base) is None]
    views = read_factors(multiples[0], context).factors if len(multiples) == 1 else (gate,)
    for form in GELU_FORMS:
        yield from ((view, form) for view in views if view.op() is form.op)


_SUMS = (ops.add, ops.sub)
_ARITHMETIC = (*_SUMS, ops.mul, ops.div, ops.neg, ops.pow, ops.integer_pow, ops.square)
DEEPEST_OPERAND = 6
"""Largest depth of operations in the argument of a function that is searched for x."""


def _iter_arithmetic(view: View, depth: int = 0) -> Iterator[View]:
    """Yield a value and the values from which it is computed by arithmetic."""
    yield view
    for part in operands(view) if depth < DEEPEST_OPERAND and view.op() in _ARITHMETIC else ():
        yield from _iter_arithmetic(part, depth + 1)


def _is_gelu(product: View, x: View, function: View, form: GeluForm, context: MatchContext) -> bool:
    """Return True if ``product`` is GELU of ``x`` in this form, where ``function`` is the result of
    erf, erfc or tanh."""
    expected_argument: Terms = {
        frozenset({(x, power)}): number for power, number in form.argument.items()
    }
    expected_product: Terms = {
        frozenset({(x, 1), (function, power)} if power else {(x, 1)}): number
        for power, number in form.product.items()
    }
    pairs = (operand(function, 0), expected_argument), (product, expected_product)
    forms = [(normal_form(v, context, [x.base], conversions="wider"), terms) for v, terms in pairs]
    return all(found is not None and found.is_near(terms, 1) for found, terms in forms)


GELU = recogniser_from("Gelu", (ops.mul,), match_gelu, partial(emit_matched_operation, ops.gelu))
