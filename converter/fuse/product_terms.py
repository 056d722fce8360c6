"""Products and means as the recognisers see them, in whatever spelling."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax.numpy as jnp
import numpy as np

from converter.fuse.match import Uses, operand, peel
from converter.ir import Node, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Dim
from converter.ir.op import Op
from converter.ir.scalars import named_size, scalar


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


def product_of(node: Node, uses: Uses) -> Product:
    """The result of a node as a product, for which one recogniser after the other asks."""
    last = uses.memo.get(product_of)
    if last is None or last[0] is not node:
        last = uses.memo[product_of] = node, product(along(node.out), uses)
    return last[1]


@dataclass(frozen=True)
class _Collector:
    uses: Uses
    into: Product
    powers: bool
    rounding: bool

    def take(self, view: View, *, divide: bool = False, root: bool = False) -> None:
        number, op = scalar(view.base), view.op()
        if number is not None and not isinstance(number, bool) and _may_join(number, divide):
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
        elif exponent(view) == -1 and (root or self.uses.single_use(view.base)):
            self._operand(view, 0, not divide)
        else:
            (self.into.divisors if divide else self.into.factors).append(view)

    def _operand(self, view: View, index: int, divide: bool) -> None:
        self.take(operand(view, index, rounding=self.rounding), divide=divide)


def _may_join(number: float, divides: bool) -> bool:
    """Whether a number may be multiplied with the others: two of those overflow on no way that
    their product does not."""
    return not divides if number == 0 else 1 / LARGEST_NUMBER <= abs(number) <= LARGEST_NUMBER


LARGEST_NUMBER = 2.0**60


def exponent(view: View) -> int:
    """n where the view is the n-th power of its operand, 0 where it is none."""
    if view.op() is ops.square:
        return 2
    if view.op() is ops.pow:
        number = scalar(operand(view, 1).base)
        return int(number) if number is not None and float(number).is_integer() else 0
    return int(view.node().params["y"]) if view.op() is ops.integer_pow else 0


# --------------------------------------------------------------------------------------- reductions


@dataclass(frozen=True)
class ReducedValue:
    """Value that is reduced, along the logical axes (none of its own at the reduced ones), and
    then along the axes that are lost, which have these ``sizes``."""

    view: View
    sizes: tuple[Dim, ...]

    def operand(self, index: int) -> ReducedValue:
        """Operand ``index`` of the elementwise node that is reduced."""
        return ReducedValue(operand(self.view, index), self.sizes)

    def axes_of(self, whole: View) -> tuple[int, ...] | None:
        """The logical axes along which all of ``whole`` is reduced, or ``None`` if it is not."""
        rank = len(whole.axes)
        own, lost = self.view.axes[:rank], self.view.axes[rank:]
        pairs = zip(lost, self.sizes, strict=True)
        repeated = any(a is None and not dims.same(d, 1) for a, d in pairs)
        if self.view.base is not whole.base or repeated:
            return None
        axes = [i for i, a in enumerate(own) if a is None and whole.axes[i] is not None]
        others = all(own[i] == whole.axes[i] for i in range(rank) if i not in axes)
        gone = {a for a in lost if a is not None} == {whole.axes[i] for i in axes}
        return tuple(axes) if others and gone else None


def reduced(part: View, op: Op) -> ReducedValue | None:
    """Operand that ``part`` is the ``op`` of."""
    part = peel(part, rounding=True)  # sums of halves are taken in float32 and rounded
    if part.op() != op:
        return None
    source, lost = part.node().inputs[0], tuple(part.node().params["axes"])
    kept = [a for a in range(source.rank) if a not in lost]
    axes = (*(None if a is None else kept[a] for a in part.axes), *lost)
    return ReducedValue(peel(along(source, axes)), tuple(source.shape[a] for a in lost))


def reduction(part: View, of: View, op: Op) -> tuple[int, ...] | None:
    """The logical axes over which ``part`` is ``op`` of ``of``, or ``None`` if it is not."""
    inner = reduced(part, op)
    return None if inner is None else inner.axes_of(of)


@dataclass(frozen=True)
class Mean:
    """``factor`` times a sum: a mean, if it is divided by the number of summands."""

    summed: ReducedValue
    factor: Product


def mean_of(view: View, uses: Uses) -> Mean | None:
    """The sum and the factor of a value that is one times the other."""
    parts = product(view, uses, rounding=True)
    named = all(named_size(divisor.base) is not None for divisor in parts.divisors)
    if len(parts.factors) != 1 or not named:
        return None
    summed = reduced(parts.factors[0], ops.reduce_sum)
    return None if summed is None else Mean(summed, parts)


def real(view: View) -> View:
    """Value with the same square: of an absolute value its operand."""
    return operand(view, 0) if view.op() is ops.abs else view
