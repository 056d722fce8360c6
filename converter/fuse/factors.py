"""Values as one product, which is a single monomial with a coefficient (`polynomials`).

`normal_form` multiplies sums out. A recogniser that emits the factors of a product again needs them
as they are, so that sums are single factors here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from converter.fuse.match import MatchContext, operand
from converter.fuse.normal_form import exponent, is_joinable
from converter.fuse.polynomials import (
    ONE,
    Monomial,
    cancelled_factors,
    multiply_monomials,
    raise_monomial,
)
from converter.ir import Node, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import Conversions, look_through
from converter.ir.scalars import scalar


@dataclass(frozen=True)
class Factors:
    """``coefficient * prod(factors) / prod(divisors)``, all along the same logical axes.

    Factors and divisors are in the order of the program. A view to a power is there several times.
    """

    coefficient: float = 1.0
    factors: tuple[View, ...] = ()
    divisors: tuple[View, ...] = ()

    def without(self, factor: View) -> Factors:
        """Return the product with ``factor``, one of ``factors``, left out once."""
        index = self.factors.index(factor)
        return replace(self, factors=(*self.factors[:index], *self.factors[index + 1 :]))

    def multiply(self, other: Factors) -> Factors:
        """Return the product of two products. Nothing cancels."""
        return Factors(
            self.coefficient * other.coefficient,
            self.factors + other.factors,
            self.divisors + other.divisors,
        )


def read_factors(
    view: View, context: MatchContext, *, conversions: Conversions = "wider"
) -> Factors:
    """Return a value as a product, through its multiplications, divisions, negations and
    reciprocals.

    Besides the value itself, only values with a single reader are taken apart. Numbers that are
    neither zero nor huge or tiny are multiplied into the coefficient. A value that is no product is
    the only factor, and so is a product in which factors cancel. ``conversions`` are the
    conversions between the operations that are removed, as in `look_through`.
    """
    reader = _FactorReader(context, conversions)
    monomial, coefficient = reader.read(look_through(view, conversions=conversions), is_root=True)
    powers, factors, divisors = dict(monomial), list[View](), list[View]()
    for atom in reader.atoms:
        count = int(powers.get(atom, 0))
        (factors if count > 0 else divisors).extend([atom] * abs(count))
    return Factors(coefficient, tuple(factors), tuple(divisors))


def factors_of(node: Node, context: MatchContext) -> Factors:
    """Return the result of a node as a product.

    Only the last result is cached, because several recognisers ask for the same node in turn.
    """
    cached = context.memo.get(factors_of)
    if cached is None or cached[0] is not node:
        cached = context.memo[factors_of] = node, read_factors(view_of(node.out), context)
    factors: Factors = cached[1]
    return factors


class _FactorReader:
    """Reader of values as monomials.

    ``conversions`` is as in `look_through`. ``atoms`` are the views in the monomials that were
    read, in the order of the program.
    """

    def __init__(self, context: MatchContext, conversions: Conversions) -> None:
        self.context, self.conversions = context, conversions
        self.atoms: dict[View, None] = {}

    def read(self, view: View, *, is_root: bool = False) -> tuple[Monomial, float]:
        """Return a value as a monomial and its coefficient.

        The value is taken apart if ``is_root`` is True or nothing else reads it.
        """
        number, op = scalar(view.base), view.op()
        if number and not isinstance(number, bool) and is_joinable(number):
            return ONE, float(number)
        is_open = is_root or self.context.single_use(view.base)
        if is_open and op is ops.neg:
            monomial, coefficient = self._read_operand(view, 0)
            return monomial, -coefficient
        if is_open and exponent(view) == -1:
            monomial, coefficient = self._read_operand(view, 0)
            return raise_monomial(monomial, -1), 1 / coefficient
        if is_open and op in (ops.mul, ops.div):
            (left, x), (right, y) = self._read_operand(view, 0), self._read_operand(view, 1)
            if op is ops.div:
                right, y = raise_monomial(right, -1), 1 / y
            if not cancelled_factors(left, right):
                return multiply_monomials(left, right), x * y
        self.atoms.setdefault(view)
        return frozenset({(view, 1)}), 1.0

    def _read_operand(self, view: View, index: int) -> tuple[Monomial, float]:
        """Return operand ``index`` of the view's elementwise node as a monomial and its
        coefficient."""
        return self.read(operand(view, index, conversions=self.conversions))
