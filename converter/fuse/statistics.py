"""Means, mean squares and variances, by their normal forms."""

from dataclasses import dataclass
from typing import Literal

from converter.fuse.match import Uses
from converter.fuse.normal_form import (
    NormalForm,
    Sum,
    Terms,
    count,
    multiplied,
    normal_form,
    powered,
)
from converter.fuse.product_terms import ReducedValue
from converter.ir import Value
from converter.ir.axes import View


@dataclass(frozen=True)
class MeanForm:
    """Mean of a value over its logical ``axes``, as a sum that is divided by a count."""

    total: Sum
    axes: tuple[int, ...]

    @property
    def mean(self) -> Terms:
        return multiplied(_of(self.total), powered(count(self.total.sizes), -1))

    @property
    def mean_square(self) -> Terms:
        return multiplied(_of(self.squares), powered(count(self.total.sizes), -1))

    @property
    def squares(self) -> Sum:
        """The sum of squares."""
        squared = frozenset((atom, 2 * power) for atom, power in self.total.monomial)
        return Sum(squared, self.total.sizes)

    @property
    def variance(self) -> Terms:
        square = {monomial: -number for monomial, number in powered(self.mean, 2).items()}
        return {**self.mean_square, **square}


def _of(total: Sum) -> Terms:
    return {frozenset({(total, 1)}): 1.0}


def mean_form(view: View, x: View, uses: Uses, weight: float = 1.0) -> MeanForm | None:
    """Return the mean of ``x`` that ``weight * view`` is, None if it is none."""
    form = normal_form(view, uses, [x.base])
    for mean in _means(form, x, 1):
        wanted = {monomial: number / weight for monomial, number in mean.mean.items()}
        if form is not None and form.is_near(wanted):
            return mean
    return None


def mean_square_axes(view: View, x: View, uses: Uses) -> tuple[int, ...] | None:
    """Return the logical axes over which a value is the mean of the squares of ``x``."""
    form = normal_form(view, uses, [x.base])
    for mean in _means(form, x, 2):
        if form is not None and form.is_near(mean.mean_square):
            return mean.axes
    return None


def is_variance(view: View, x: View, uses: Uses) -> bool:
    """Return whether a value is a variance of ``x``, over whatever axes."""
    means = _means(normal_form(view, uses, [x.base]), x, 1)
    return any(variance_divisor(view, mean, x, uses) for mean in means)


def variance_divisor(
    view: View, mean: MeanForm, x: View, uses: Uses
) -> Literal["elements", "other"] | None:
    """Return what divides the squares of a variance of ``x`` over the axes of a mean.

    It is the number of the elements, or another number; None if this is no such variance.
    """
    form = normal_form(view, uses, [x.base])
    if form is None:
        return None
    if form.is_near(mean.variance):
        return "elements"
    for monomial, number in form.terms.items():
        if (mean.squares, 1) in monomial:
            divisor = {monomial - {(mean.squares, 1)}: number}
            own = multiplied(mean.variance, multiplied(divisor, count(mean.total.sizes)))
            return "other" if form.is_near(own) else None
    return None


def _means(form: NormalForm | None, x: View, power: int) -> list[MeanForm]:
    """The sums of a power of ``x`` in a normal form, as of its means."""
    found: list[MeanForm] = []
    for atom in {atom for monomial in form.terms for atom, _ in monomial} if form else ():
        if not isinstance(atom, Sum) or len(atom.monomial) != 1:
            continue
        ((summed, own),) = atom.monomial
        if isinstance(summed, View) and own == power:
            axes = ReducedValue(summed, atom.sizes).axes_of(x)
            total = Sum(frozenset({(summed, 1)}), atom.sizes)
            found += [MeanForm(total, axes)] if axes else []
    return found


def summed_value(view: View, uses: Uses) -> Value | None:
    """Return the value of which a value is a multiple of the sum, as it is before it is summed."""
    form = normal_form(view, uses)
    sums = [atom for monomial in form.terms for atom, _ in monomial] if form else []
    totals = [atom for atom in sums if isinstance(atom, Sum)]
    if len(totals) != 1 or len(totals[0].monomial) != 1:
        return None
    ((summed, _),) = totals[0].monomial
    return summed.base if isinstance(summed, View) else None
