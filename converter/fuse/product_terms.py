"""Products, reductions and means, independent of how they are written."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from converter.fuse.match import MatchContext, operand
from converter.fuse.reductions import ReducedValue, match_reduction
from converter.ir import Node, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import Conversions, look_through
from converter.ir.scalars import named_size, scalar


@dataclass
class Product:
    """``coefficient * prod(factors) / prod(divisors)``, all along the same logical axes.

    ``slack`` is the relative error that rounded constants may cause in the coefficient.
    """

    coefficient: float = 1.0
    factors: list[View] = field(default_factory=list)
    divisors: list[View] = field(default_factory=list)
    slack: float = 0.0

    def without(self, factor: View) -> list[View]:
        """Return the factors of the product without ``factor``.

        ``factor`` must be an element of ``factors``, which is found by identity. Equal factors
        stay. The product is not changed.
        """
        index = next(i for i, f in enumerate(self.factors) if f is factor)
        return [*self.factors[:index], *self.factors[index + 1 :]]

    def multiply(self, number: float, dtype: np.dtype) -> None:
        """Multiply the coefficient by a constant of this dtype, and add its rounding error to the
        slack. Both are changed in place."""
        self.coefficient *= number
        self.slack += float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else 0.0

    def is_near(self, target: float) -> bool:
        """Return True if the coefficient is ``target``, up to the rounding of constants."""
        return abs(self.coefficient - target) <= (EQUAL + self.slack) * abs(target)


EQUAL = 1e-6
"""Relative difference of constants that count as equal: people write about as many digits."""


def product(
    view: View, context: MatchContext, *, powers: bool = False, conversions: Conversions = "wider"
) -> Product:
    """Return a value as a product, through its multiplications, divisions, negations and
    reciprocals.

    Besides the value itself, only values with a single reader are taken apart. Constants from
    2**-60 to 2**60 and zero are multiplied into the coefficient. A value that is no product is the
    only factor.

    **Arguments**

    - `powers`: whether a square or another power up to 4 becomes repeated factors, even if other
      nodes read it. Powers in a divisor are not taken apart.
    - `conversions`: the conversions that are removed, as in `look_through`.
    """
    result = Product()
    start = view if conversions == "wider" else look_through(view, conversions=conversions)
    _Collector(context, result, powers, conversions).take(start, root=True)
    return result


def product_of(node: Node, context: MatchContext) -> Product:
    """Return the result of a node as a product.

    Only the last result is cached, because several recognisers ask for the same node in turn. They
    share the object, so it must not be changed.
    """
    cached = context.memo.get(product_of)
    if cached is None or cached[0] is not node:
        cached = context.memo[product_of] = node, product(view_of(node.out), context)
    return cached[1]


@dataclass(frozen=True)
class _Collector:
    """Collector of the factors of a value in the product ``target``.

    ``powers`` and ``conversions`` are as in `product`.
    """

    context: MatchContext
    target: Product
    powers: bool
    conversions: Conversions

    def take(self, view: View, *, divide: bool = False, root: bool = False) -> None:
        """Add a value to the factors of the product, or to its divisors if ``divide``.

        Numbers are multiplied into the coefficient. Products, quotients and negations are taken
        apart if ``root`` is True or nothing else reads them. ``root`` is True only for the value
        that the product is made of.
        """
        number, op = scalar(view.base), view.op()
        if number is not None and not isinstance(number, bool) and _is_joinable(number, divide):
            self.target.multiply(1 / number if divide else number, view.base.dtype)
        elif op in (ops.mul, ops.div) and (root or self.context.single_use(view.base)):
            self._operand(view, 0, divide)
            self._operand(view, 1, divide != (op is ops.div))
        elif op is ops.neg and (root or self.context.single_use(view.base)):
            self.target.coefficient *= -1
            self._operand(view, 0, divide)
        elif self.powers and not divide and 0 < (power := exponent(view)) < 5:
            for _ in range(power):
                self._operand(view, 0, divide)
        elif exponent(view) == -1 and (root or self.context.single_use(view.base)):
            self._operand(view, 0, not divide)
        else:
            (self.target.divisors if divide else self.target.factors).append(view)

    def _operand(self, view: View, index: int, divide: bool) -> None:
        """Add operand ``index`` of the view's elementwise node to the product."""
        self.take(operand(view, index, conversions=self.conversions), divide=divide)


def _is_joinable(number: float, divides: bool) -> bool:
    """Return True if a constant may be multiplied into the coefficient, so that no order overflows.

    It must be between 2**-60 and 2**60 in absolute value, or zero if it does not divide
    (``divides``).
    """
    return not divides if number == 0 else 1 / LARGEST_NUMBER <= abs(number) <= LARGEST_NUMBER


LARGEST_NUMBER = 2.0**60
"""Numbers up to this one, and down to its inverse, are multiplied with each other in advance."""


def exponent(view: View) -> int:
    """Return n if the view is the n-th power of its operand for a constant integer n, otherwise 0.

    n may be negative. Products and reciprocals by division are no powers.
    """
    if view.op() is ops.square:
        return 2
    if view.op() is ops.pow:
        number = scalar(operand(view, 1).base)
        return int(number) if number is not None and float(number).is_integer() else 0
    return int(view.node().params["y"]) if view.op() is ops.integer_pow else 0


# --------------------------------------------------------------------------------------- sums


@dataclass(frozen=True)
class ScaledSum:
    """A sum times numbers. It is a mean if they are one over the number of summands.

    ``summed`` is the value that is summed. ``product`` is the full product: its only factor is the
    sum, and its coefficient and divisors are what multiplies and divides the sum.
    """

    summed: ReducedValue
    product: Product


def match_scaled_sum(view: View, context: MatchContext) -> ScaledSum | None:
    """Match a sum, which may be multiplied by numbers and divided by named sizes.

    Return None for other values.
    """
    parts = product(view, context, conversions="rounding")
    has_named_divisors = all(named_size(divisor.base) is not None for divisor in parts.divisors)
    if len(parts.factors) != 1 or not has_named_divisors:
        return None
    summed = match_reduction(parts.factors[0], ops.reduce_sum)
    return None if summed is None else ScaledSum(summed, parts)


def strip_abs(view: View) -> View:
    """Return the operand of an absolute value, which has the same square. Return other views
    unchanged."""
    return operand(view, 0) if view.op() is ops.abs else view
