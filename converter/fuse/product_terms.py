"""Products as the recognisers see them: a number, factors and divisors, in whatever spelling."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from converter.fuse.match import Uses, operand, peel
from converter.ir import ops
from converter.ir.axes import View
from converter.ir.scalars import scalar


@dataclass
class Product:
    """``coefficient * prod(factors) / prod(divisors)``, all along the same logical axes.

    ``slack`` is how far off, relatively, the rounding of its constants may put the coefficient.
    """

    coefficient: float = 1.0
    factors: list[View] = field(default_factory=list)
    divisors: list[View] = field(default_factory=list)
    slack: float = 0.0

    def without(self, factor: View) -> list[View]:
        """The factors, one of them taken out."""
        index = next(i for i, f in enumerate(self.factors) if f is factor)
        return [*self.factors[:index], *self.factors[index + 1 :]]

    def multiply(self, number: float, dtype: np.dtype) -> None:
        self.coefficient *= number
        self.slack += float(jnp.finfo(dtype).eps) if jnp.issubdtype(dtype, jnp.floating) else 0.0

    def is_near(self, target: float) -> bool:
        """Whether the coefficient is ``target``, up to the rounding of what it is made from."""
        return abs(self.coefficient - target) <= (EQUAL + self.slack) * abs(target)


EQUAL = 1e-6
"""Relative difference of constants that are written with as many digits as people write."""


def product(view: View, uses: Uses, *, powers: bool = False, rounding: bool = False) -> Product:
    """Flatten multiplications, divisions, negations and numbers.

    Only what nobody else reads is flattened, the root apart; ``powers`` also writes squares and
    small integer powers as repeated factors, shared or not; ``rounding`` is ``peel``'s.
    """
    result = Product()
    start = peel(view, rounding=True) if rounding else view
    _Collector(uses, result, powers, rounding).take(start, root=True)
    return result


@dataclass(frozen=True)
class _Collector:
    uses: Uses
    into: Product
    powers: bool
    rounding: bool

    def take(self, view: View, *, divide: bool = False, root: bool = False) -> None:
        number, op = scalar(view.base), view.op()
        if number is not None and not isinstance(number, bool) and not (divide and number == 0):
            self.into.multiply(1 / number if divide else number, view.base.dtype)
        elif op in (ops.mul, ops.div) and (root or self.uses.single_use(view.base)):
            self._operand(view, 0, divide)
            self._operand(view, 1, divide != (op is ops.div))
        elif op is ops.neg and (root or self.uses.single_use(view.base)):
            self.into.coefficient *= -1
            self._operand(view, 0, divide)
        elif self.powers and not divide and 0 < (times := exponent(view)) < 5:
            for _ in range(times):
                self._operand(view, 0, divide)
        else:
            (self.into.divisors if divide else self.into.factors).append(view)

    def _operand(self, view: View, index: int, divide: bool) -> None:
        self.take(operand(view, index, rounding=self.rounding), divide=divide)


def exponent(view: View) -> int:
    """n where the view is the n-th power of its operand, 0 where it is none."""
    if view.op() is ops.square:
        return 2
    return int(view.node().params["y"]) if view.op() is ops.integer_pow else 0
