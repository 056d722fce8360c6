"""GELU, exact and tanh-approximated [Hendrycks & Gimpel, arXiv:1606.08415].

    x/2 * (1 + erf(x / sqrt(2)))  =  x/2 * erfc(-x / sqrt(2))        = gelu(x, approximate=False)
    x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x^3)))              = gelu(x, approximate=True)

with the constants multiplied into either factor, and x taken out of the cubic.
"""

import math
from functools import partial

from converter.fuse.match import MatchedOperation, Uses, build_applied, operand, pair, proved
from converter.fuse.product_terms import Product, product, product_of
from converter.ir import Node, ops
from converter.ir.axes import View
from converter.ir.dtypes import is_float
from converter.ir.scalars import scalar

SQRT_HALF = math.sqrt(0.5)
SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
CUBIC = 0.044715


def prove_gelu(node: Node, uses: Uses) -> MatchedOperation | None:
    if not (is_float(node.out.dtype) and uses.takes("Gelu", node.out.dtype)):
        return None
    parts = product_of(node, uses)
    if len(parts.factors) != 2 or parts.divisors:
        return None
    for x, gate in (parts.factors, parts.factors[::-1]):
        approximate = _gate(gate, x, parts, uses)
        if approximate is not None:
            return MatchedOperation(x, {"approximate": approximate})
    return None


def _gate(gate: View, x: View, outer: Product, uses: Uses) -> bool | None:
    """Whether the gate, times the outer coefficient, is Phi(x) approximated, or Phi(x) at all."""
    if gate.op() is ops.erfc:
        proper = outer.is_near(0.5) and _is_scaled(operand(gate, 0), x, -SQRT_HALF, uses)
        return False if proper else None
    for one, other in pair(gate) if gate.op() is ops.add else ():
        number = scalar(one.base)
        inner = product(other, uses)
        if number is None or len(inner.factors) != 1 or inner.divisors:
            continue
        whole = Product(outer.coefficient * float(number), slack=outer.slack)
        op = inner.factors[0].op()
        if not inner.is_near(float(number)) or not whole.is_near(0.5):
            continue
        if op is ops.erf and _is_scaled(operand(inner.factors[0], 0), x, SQRT_HALF, uses):
            return False
        if op is ops.tanh and _is_tanh_argument(operand(inner.factors[0], 0), x, uses):
            return True
    return None


def _is_scaled(view: View, x: View, factor: float, uses: Uses) -> bool:
    parts = product(view, uses)
    return parts.factors == [x] and not parts.divisors and parts.is_near(factor)


def _is_tanh_argument(view: View, x: View, uses: Uses) -> bool:
    """``sqrt(2/pi) * (x + 0.044715 * x^3)``, or the same with x taken out."""
    outer = product(view, uses, powers=True)
    sums = [f for f in outer.factors if f.op() is ops.add and f != x]
    if outer.divisors or not outer.is_near(SQRT_2_OVER_PI) or len(sums) != 1:
        return False
    outside = outer.without(sums[0])
    if outside not in ([], [x]):
        return False
    terms = [product(t, uses, powers=True) for t in pair(sums[0])[0]]
    first, third = sorted(terms, key=lambda p: len(p.factors))
    same = all(f == x for p in terms for f in p.factors) and not any(p.divisors for p in terms)
    degrees = [len(p.factors) + len(outside) for p in (first, third)]
    return same and degrees == [1, 3] and first.is_near(1) and third.is_near(CUBIC)


GELU = proved("Gelu", (ops.mul,), prove_gelu, partial(build_applied, ops.gelu))
