"""GELU, exact and with tanh [Hendrycks & Gimpel, arXiv:1606.08415].

    x/2 * (1 + erf(x / sqrt(2)))  =  x/2 * erfc(-x / sqrt(2))        = gelu(x, approximate=False)
    x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))              = gelu(x, approximate=True)

The constants may be multiplied into either factor, and x may be factored out of the cubic.
"""

import math
from functools import partial

from converter.fuse.match import (
    MatchContext,
    MatchedOperation,
    emit_matched_operation,
    operand,
    operand_orders,
    recogniser_from,
)
from converter.fuse.product_terms import Product, product, product_of
from converter.ir import Node, ops
from converter.ir.axes import View
from converter.ir.dtypes import is_float
from converter.ir.scalars import scalar

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def match_gelu(node: Node, context: MatchContext) -> MatchedOperation | None:
    """Match a product of a value x and its standard normal distribution function Phi(x).

    Return x and the parameter ``approximate``: True for the formula with tanh, False for the one
    with erf or erfc. Return None for other products, or if the runtime has no Gelu of this dtype.
    """
    if not (is_float(node.out.dtype) and context.has_operator("Gelu", node.out.dtype)):
        return None
    parts = product_of(node, context)
    if len(parts.factors) != 2 or parts.divisors:
        return None
    for x, gate in (parts.factors, parts.factors[::-1]):
        approximate = _match_gate(gate, x, parts, context)
        if approximate is not None:
            return MatchedOperation(x, {"approximate": approximate})
    return None


def _match_gate(gate: View, x: View, outer: Product, context: MatchContext) -> bool | None:
    """Classify the factor ``gate`` of a product with ``x`` as a form of Phi(x).

    Return True for the tanh approximation, False for the exact form with erf or erfc, and None for
    another factor. ``outer`` is the full product of ``x``, ``gate`` and a coefficient. The 1/2 of
    Phi may be a part of ``gate`` or of the coefficient.
    """
    if gate.op() is ops.erfc:
        is_normal_cdf = outer.is_near(0.5) and _is_scaled(operand(gate, 0), x, -SQRT_HALF, context)
        return False if is_normal_cdf else None
    for addend, summand in operand_orders(gate) if gate.op() is ops.add else ():
        number = scalar(addend.base)
        inner = product(summand, context)
        if number is None or len(inner.factors) != 1 or inner.divisors:
            continue
        factor = Product(outer.coefficient * float(number), slack=outer.slack)
        op = inner.factors[0].op()
        if not inner.is_near(float(number)) or not factor.is_near(0.5):
            continue
        if op is ops.erf and _is_scaled(operand(inner.factors[0], 0), x, SQRT_HALF, context):
            return False
        if op is ops.tanh and _is_tanh_argument(operand(inner.factors[0], 0), x, context):
            return True
    return None


def _is_scaled(view: View, x: View, factor: float, context: MatchContext) -> bool:
    """Return True if a value is ``factor * x``, up to the rounding of constants."""
    parts = product(view, context)
    return parts.factors == [x] and not parts.divisors and parts.is_near(factor)


def _is_tanh_argument(view: View, x: View, context: MatchContext) -> bool:
    """Return True if a value is ``sqrt(2/pi) * (x + 0.044715 * x^3)``, also with x factored out of
    the sum."""
    outer = product(view, context, powers=True)
    sums = [f for f in outer.factors if f.op() is ops.add and f != x]
    if outer.divisors or not outer.is_near(SQRT_2_OVER_PI) or len(sums) != 1:
        return False
    outer_factors = outer.without(sums[0])
    if outer_factors not in ([], [x]):
        return False
    terms = [product(t, context, powers=True) for t in operand_orders(sums[0])[0]]
    linear, cubic = sorted(terms, key=lambda p: len(p.factors))
    has_only_x = all(f == x for p in terms for f in p.factors) and not any(
        p.divisors for p in terms
    )
    degrees = [len(p.factors) + len(outer_factors) for p in (linear, cubic)]
    return has_only_x and degrees == [1, 3] and linear.is_near(1) and cubic.is_near(CUBIC)


GELU = recogniser_from("Gelu", (ops.mul,), match_gelu, partial(emit_matched_operation, ops.gelu))
