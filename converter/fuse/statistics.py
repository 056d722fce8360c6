"""Means, mean squares and variances, matched by their normal forms."""

from dataclasses import dataclass
from typing import Literal

from converter.fuse.match import Uses
from converter.fuse.normal_form import (
    NormalForm,
    Sum,
    Terms,
    count_terms,
    multiply_terms,
    normal_form,
    raise_terms,
)
from converter.fuse.product_terms import ReducedValue
from converter.ir import Value
from converter.ir.axes import View


@dataclass(frozen=True)
class MeanForm:
    """Mean of a value over its logical ``axes``, as a sum divided by a count."""

    total: Sum
    axes: tuple[int, ...]

    @property
    def mean(self) -> Terms:
        """The mean."""
        return multiply_terms(
            _sum_terms(self.total), raise_terms(count_terms(self.total.sizes), -1)
        )

    @property
    def mean_square(self) -> Terms:
        """The mean of squares."""
        return multiply_terms(
            _sum_terms(self.squares), raise_terms(count_terms(self.total.sizes), -1)
        )

    @property
    def squares(self) -> Sum:
        """The sum of squares."""
        squared = frozenset((atom, 2 * power) for atom, power in self.total.monomial)
        return Sum(squared, self.total.sizes)

    @property
    def variance(self) -> Terms:
        """The mean of squares minus the squared mean."""
        square = {monomial: -number for monomial, number in raise_terms(self.mean, 2).items()}
        return {**self.mean_square, **square}


def _sum_terms(total: Sum) -> Terms:
    return {frozenset({(total, 1)}): 1.0}


def mean_form(view: View, x: View, uses: Uses, weight: float = 1.0) -> MeanForm | None:
    """Return the mean of ``x`` that equals ``weight * view``, or None."""
    form = normal_form(view, uses, [x.base])
    for mean in _means(form, x, 1):
        expected = {monomial: number / weight for monomial, number in mean.mean.items()}
        if form is not None and form.is_near(expected):
            return mean
    return None


def mean_square_axes(view: View, x: View, uses: Uses) -> tuple[int, ...] | None:
    """Return the logical axes over which a value is the mean of the squares of ``x``, or None."""
    form = normal_form(view, uses, [x.base])
    for mean in _means(form, x, 2):
        if form is not None and form.is_near(mean.mean_square):
            return mean.axes
    return None


def is_variance(view: View, x: View, uses: Uses) -> bool:
    """Return True if a value is a variance of ``x`` over any axes."""
    means = _means(normal_form(view, uses, [x.base]), x, 1)
    return any(variance_divisor(view, mean, x, uses) for mean in means)


def variance_divisor(
    view: View, mean: MeanForm, x: View, uses: Uses
) -> Literal["elements", "other"] | None:
    """Return the divisor of a variance of ``x`` over the axes of a mean.

    "elements" is the number of elements, "other" another number. None means that the value is no
    such variance.
    """
    form = normal_form(view, uses, [x.base])
    if form is None:
        return None
    if form.is_near(mean.variance):
        return "elements"
    for monomial, number in form.terms.items():
        if (mean.squares, 1) in monomial:
            divisor = {monomial - {(mean.squares, 1)}: number}
            expected = multiply_terms(
                mean.variance, multiply_terms(divisor, count_terms(mean.total.sizes))
            )
            return "other" if form.is_near(expected) else None
    return None


def _means(form: NormalForm | None, x: View, power: int) -> list[MeanForm]:
    """Return the sums of a power of ``x`` in a normal form, as means."""
    means: list[MeanForm] = []
    for atom in {atom for monomial in form.terms for atom, _ in monomial} if form else ():
        if not isinstance(atom, Sum) or len(atom.monomial) != 1:
            continue
        ((summed, exponent),) = atom.monomial
        if isinstance(summed, View) and exponent == power:
            axes = ReducedValue(summed, atom.sizes).axes_of(x)
            total = Sum(frozenset({(summed, 1)}), atom.sizes)
            means += [MeanForm(total, axes)] if axes else []
    return means


def match_summed_value(view: View, uses: Uses) -> Value | None:
    """Return the operand of a sum if the value is a multiple of that sum, else None."""
    form = normal_form(view, uses)
    sums = [atom for monomial in form.terms for atom, _ in monomial] if form else []
    totals = [atom for atom in sums if isinstance(atom, Sum)]
    if len(totals) != 1 or len(totals[0].monomial) != 1:
        return None
    ((summed, _),) = totals[0].monomial
    return summed.base if isinstance(summed, View) else None
