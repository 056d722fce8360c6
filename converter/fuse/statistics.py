"""Match means, mean squares and variances by their normal forms."""

from dataclasses import dataclass
from typing import Literal

from converter.fuse.match import MatchContext
from converter.fuse.normal_form import NormalForm, normal_form
from converter.fuse.polynomials import Sum, Terms, count_terms, multiply_terms, raise_terms
from converter.fuse.reductions import ReducedValue
from converter.ir import Value
from converter.ir.axes import View


@dataclass(frozen=True)
class MeanForm:
    """Mean of a value over some of its axes, as a sum divided by a count.

    ``total`` is the sum, an atom of normal forms. ``axes`` are the logical axes of the value over
    which it is taken.
    """

    total: Sum
    axes: tuple[int, ...]

    @property
    def mean(self) -> Terms:
        """The mean as a polynomial."""
        return multiply_terms(
            _sum_terms(self.total), raise_terms(count_terms(self.total.sizes), -1)
        )

    @property
    def mean_square(self) -> Terms:
        """The mean of the squares as a polynomial."""
        return multiply_terms(
            _sum_terms(self.squares), raise_terms(count_terms(self.total.sizes), -1)
        )

    @property
    def squares(self) -> Sum:
        """The sum of the squares."""
        squared = frozenset((atom, 2 * power) for atom, power in self.total.monomial)
        return Sum(squared, self.total.sizes)

    @property
    def variance(self) -> Terms:
        """The mean of the squares minus the squared mean, as a polynomial."""
        square = {monomial: -number for monomial, number in raise_terms(self.mean, 2).items()}
        return {**self.mean_square, **square}


def _sum_terms(total: Sum) -> Terms:
    """Return the polynomial that is one sum."""
    return {frozenset({(total, 1)}): 1.0}


def match_mean_form(
    view: View, x: View, context: MatchContext, weight: float = 1.0
) -> MeanForm | None:
    """Return a mean of ``x`` over some of its axes, if ``weight * view`` is one, otherwise None."""
    form = normal_form(view, context, [x.base])
    for mean in _means(form, x, 1):
        expected = {monomial: number / weight for monomial, number in mean.mean.items()}
        if form is not None and form.is_near(expected):
            return mean
    return None


def mean_square_axes(view: View, x: View, context: MatchContext) -> tuple[int, ...] | None:
    """Return the logical axes over which ``view`` is the mean of the squares of ``x``, or None."""
    form = normal_form(view, context, [x.base])
    for mean in _means(form, x, 2):
        if form is not None and form.is_near(mean.mean_square):
            return mean.axes
    return None


def is_variance(view: View, x: View, context: MatchContext) -> bool:
    """Return True if ``view`` is a variance of ``x`` over any axes, with any divisor."""
    means = _means(normal_form(view, context, [x.base]), x, 1)
    return any(variance_divisor(view, mean, x, context) for mean in means)


def variance_divisor(
    view: View, mean: MeanForm, x: View, context: MatchContext
) -> Literal["elements", "other"] | None:
    """Return the kind of divisor of ``view`` as a variance of ``x`` over the axes of ``mean``.

    "elements" means that the sum of squared differences is divided by the number of elements.
    "other" means another number, such as one less. None means that the view is no such variance.
    """
    form = normal_form(view, context, [x.base])
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
    """Return the mean of ``x`` over the same axes for each sum of ``x ** power`` in a normal form.

    Return an empty list if the normal form is None or has no such sums.
    """
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


def match_summed_value(view: View, context: MatchContext) -> Value | None:
    """Return the value that is summed in the normal form of ``view``, if there is exactly one sum.

    Example: x for a mean of x, and also for a mean of a power of x. Further factors and terms that
    are no sums are accepted. Return None for no sum or several, or if a product is summed.
    """
    form = normal_form(view, context)
    sums = [atom for monomial in form.terms for atom, _ in monomial] if form else []
    totals = [atom for atom in sums if isinstance(atom, Sum)]
    if len(totals) != 1 or len(totals[0].monomial) != 1:
        return None
    ((summed, _),) = totals[0].monomial
    return summed.base if isinstance(summed, View) else None
