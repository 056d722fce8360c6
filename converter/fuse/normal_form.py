"""Values as polynomials, independent of the order of their operations.

A value along its logical axes (a `View`) becomes a sum of monomials over *atoms*: other views,
names of sizes, sums along axes, and polynomials with an exponent that is negative or a half.

    mean((x - mean(x))^2)    mean(x^2) - mean(x)^2    (sum(x*x) - sum(x)*mean(x)) / n

are all ``sum(x^2) / n - sum(x)^2 / n^2``. A sum along axes is linear, and a factor that does not
vary along these axes is moved out of it. Two values are equal, as real numbers, if their normal
forms are equal.

Floats are not real numbers: an infinity that is multiplied with a sum, or that cancels, may be NaN
on one side only. The normal form records the views that were ``moved`` in this way. A value has no
normal form if one of them is not in the polynomial any more, such as y in ``x + y - y`` and
``x * y / y``. For an infinite y these are NaN, and an operator that is emitted for x is not.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from converter.fuse.match import MatchContext, operand
from converter.fuse.polynomials import (
    EQUAL,
    ONE,
    Inner,
    Monomial,
    Terms,
    add_terms,
    all_views,
    cancelled_factors,
    find_views,
    multiply_monomials,
    multiply_terms,
    raise_monomial,
    size_terms,
    sum_monomial,
    without_signs,
)
from converter.ir import Value, ops
from converter.ir.axes import View, view_of
from converter.ir.moves import Conversions, Reach, look_through
from converter.ir.scalars import named_size, scalar

SUM_MARGIN = 4.0
"""Largest factor by which the relative error of constants grows where terms of a variance cancel.

Example: ``-2/n^2 + 1/n^2`` has three times the error of 1/n^2.
"""

MAX_TERMS = 64
"""Largest number of monomials of a normal form."""

MAX_DEPTH = 24
"""Largest depth of operations that a normal form covers."""


@dataclass(frozen=True)
class NormalForm:
    """A polynomial, and the conditions under which a value equals it.

    ``moved`` are the views that the polynomial multiplies in another order than the program, or
    that cancel in it. ``slack`` is the relative error that rounded constants may cause in a
    coefficient.
    """

    terms: Terms
    moved: frozenset[View] = frozenset()
    slack: float = 0.0

    def has_all_values(self, rank: int) -> bool:
        """Return True if the elements of each ``moved`` view are in the polynomial (`_covers`).

        ``rank`` is the number of axes of the value.
        """
        parts = all_views(self.terms)
        return all(any(_covers(part, view, rank) for part in parts) for view in self.moved)

    def is_near(self, terms: Mapping[Monomial, float], margin: float = SUM_MARGIN) -> bool:
        """Return True if the polynomial has these coefficients by monomial, up to the rounding of
        constants.

        The relative error of a coefficient may be ``margin`` times that of its constants.
        """
        if self.terms.keys() != terms.keys():
            return False
        return all(
            abs(self.terms[monomial] - number) <= (EQUAL + margin * self.slack) * abs(number)
            for monomial, number in terms.items()
        )


def _covers(part: View, other: View, rank: int) -> bool:
    """Return True if each element of a value depends on all elements of ``part`` on which it would
    depend through ``other``.

    ``rank`` is the number of axes of the value. Later axes of the views are summed.
    """
    if part.base is not other.base or part.starts != other.starts:
        return False
    positions = {group: i for i, group in enumerate(part.groups) if group}
    return all(
        positions.get(group, -1) >= rank or positions.get(group) == i
        for i, group in enumerate(other.groups)
        if group
    )


def normal_form(
    view: View,
    context: MatchContext,
    leaves: Sequence[Value] = (),
    *,
    conversions: Conversions = "rounding",
    reach: Reach = "axes",
    are_finite: bool = False,
) -> NormalForm | None:
    """Return a value as a polynomial, or None if it has none.

    It has none if there would be more than `MAX_TERMS` terms, or if a view cancels in it. Views may
    cancel if ``are_finite`` is True. The polynomial then equals the value if no number in it is
    infinite or NaN.

    Arithmetic, roots, powers and sums of floats are taken apart, up to a depth of `MAX_DEPTH`
    operations. All other values are atoms of the polynomial. ``leaves`` are further values that are
    atoms, even if they are results of arithmetic. ``conversions`` and ``reach`` select the
    conversions and moves between the operations that are skipped, as in `look_through`.
    """
    key = normal_form, view, tuple(map(id, leaves)), conversions, reach, are_finite
    if key not in context.memo:
        reader = _Reader({id(value) for value in leaves}, conversions, reach)
        form = reader.of(view, MAX_DEPTH)
        is_complete = form is not None and (are_finite or form.has_all_values(len(view.groups)))
        context.memo[key] = form if is_complete else None
    found: NormalForm | None = context.memo[key]
    return found


# ------------------------------------------------------------------------------------------ values


class _Reader:
    """Reader of values as polynomials. It caches the results.

    ``leaves`` are the ids of the values that are always atoms. ``conversions`` and ``reach`` are as
    in `look_through`.
    """

    def __init__(self, leaves: set[int], conversions: Conversions, reach: Reach) -> None:
        self.leaves, self.conversions, self.reach = leaves, conversions, reach
        self.seen: dict[View, NormalForm | None] = {}

    def of(self, view: View, depth: int) -> NormalForm | None:
        """Return the normal form of a view, or None if it has too many terms.

        Operations are followed up to ``depth``; the values below them are atoms.
        """
        view = look_through(
            view, conversions=self.conversions, reach=self.reach, leaves=self.leaves
        )
        if view not in self.seen:
            self.seen[view] = self._of(view, depth)
        return self.seen[view]

    def _of(self, view: View, depth: int) -> NormalForm | None:
        """Return the normal form of a view whose base is no result of a move or conversion.

        It is not cached.
        """
        if id(view.base) in self.leaves:
            return _atom_form(view)
        constant = _constant_form(view)
        if constant is not None:
            return constant
        op, is_float = view.op(), jnp.issubdtype(view.base.dtype, jnp.floating)
        if not depth or not is_float or op is None:
            return _atom_form(view)
        if op is ops.reduce_sum:
            return self._sum(view, depth)
        if op is ops.neg:
            return _scale_form(self._operand(view, 0, depth), -1.0)
        if op in _ROOTS:
            return _raise_form(self._operand(view, 0, depth), _ROOTS[op])
        if op in (ops.add, ops.sub, ops.mul, ops.div):
            one, other = (self._operand(view, index, depth) for index in (0, 1))
            if op in (ops.add, ops.sub):
                return _add_forms(one, other, 1.0 if op is ops.add else -1.0)
            return _multiply_forms(one, other if op is ops.mul else _raise_form(other, -1))
        power = _half_exponent(view)
        return _raise_form(self._operand(view, 0, depth), power) if power else _atom_form(view)

    def _operand(self, view: View, index: int, depth: int) -> NormalForm | None:
        """Return the normal form of operand ``index`` of the view's elementwise node, one level
        deeper."""
        return self.of(view.operand(index), depth - 1)

    def _sum(self, view: View, depth: int) -> NormalForm | None:
        """Return the normal form of a sum along axes, or None if the operand's form has too many
        terms.

        The summed axes become the last logical axes of the operand. The sum of each monomial is
        split into the factors that do not vary along these axes, and a sum of the others. A view of
        a part of the sum is an atom.
        """
        inner = summed_view(view)
        if inner is None:
            return _atom_form(view)
        form, rank = self.of(inner, depth - 1), len(view.groups)
        if form is None:
            return None
        sizes = [view.node().inputs[0].shape[axis] for axis in view.node().params["axes"]]
        terms: Terms = {}
        moved = set(form.moved)
        for monomial, number in form.terms.items():
            outer_factors, inner_sums = sum_monomial(monomial, sizes, rank)
            moved |= find_views(outer_factors)
            for inner_monomial, multiplicity in inner_sums.items():
                terms, cancelled = add_terms(
                    terms,
                    {multiply_monomials(outer_factors, inner_monomial): number * multiplicity},
                )
                moved |= {view for monomial in cancelled for view in find_views(monomial)}
        return NormalForm(terms, frozenset(moved), form.slack)


_ROOTS = {ops.sqrt: 0.5, ops.rsqrt: -0.5}


def _constant_form(view: View) -> NormalForm | None:
    """Return the polynomial of a constant number that is not huge or tiny, or of a named size.

    Return None for other values.
    """
    number, size = scalar(view.base), named_size(view.base)
    if size is not None:
        return NormalForm(size_terms(size))
    if number is None or isinstance(number, bool) or not is_joinable(number):
        return None
    rounds = jnp.issubdtype(view.base.dtype, jnp.floating) and number != int(number)
    slack = float(jnp.finfo(view.base.dtype).eps) if rounds else 0.0
    return NormalForm({ONE: float(number)} if number else {}, slack=slack)


def is_joinable(number: float) -> bool:
    """Return True if a constant may be multiplied with others in advance, so that no order
    overflows: it is zero, or from 1/`LARGEST_NUMBER` to `LARGEST_NUMBER` in absolute value."""
    return number == 0 or 1 / LARGEST_NUMBER <= abs(number) <= LARGEST_NUMBER


LARGEST_NUMBER = 2.0**60
"""Numbers up to this one, and down to its inverse, are multiplied with each other in advance."""


def _atom_form(view: View) -> NormalForm:
    """Return the polynomial that is the view itself, as one atom."""
    return NormalForm({frozenset({(view, 1)}): 1.0})


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


def _half_exponent(view: View) -> float:
    """Return the exponent if a view is a power with an integer or half-integer exponent from -4 to
    4.

    Return 0 for another value.
    """
    number: Any = exponent(view)
    if view.op() is ops.pow and not number:
        number = scalar(operand(view, 1).base)
    is_number = number is not None and not isinstance(number, bool)
    return float(number) if is_number and abs(number) <= 4 and 2 * number == int(2 * number) else 0


def _scale_form(form: NormalForm | None, number: float) -> NormalForm | None:
    """Return a normal form times a number. None stays None."""
    if form is None:
        return None
    terms = {monomial: number * coefficient for monomial, coefficient in form.terms.items()}
    return NormalForm(terms, form.moved, form.slack)


def _add_forms(left: NormalForm | None, right: NormalForm | None, sign: float) -> NormalForm | None:
    """Return ``left + sign * right``, or None if there are too many terms."""
    if left is None or right is None or len(left.terms) + len(right.terms) > MAX_TERMS:
        return None
    terms, cancelled = add_terms(left.terms, right.terms, sign)
    moved = (
        left.moved | right.moved | {view for monomial in cancelled for view in find_views(monomial)}
    )
    return NormalForm(terms, moved, max(left.slack, right.slack))


def _multiply_forms(first: NormalForm | None, second: NormalForm | None) -> NormalForm | None:
    """Return the product of two normal forms, or None if there are too many terms."""
    if first is None or second is None or len(first.terms) * len(second.terms) > MAX_TERMS:
        return None
    moved = first.moved | second.moved
    for form, factor in ((first, second), (second, first)):
        if len(form.terms) != 1:
            # The factor is multiplied into every term, or is lost if there are no terms.
            moved |= all_views(factor.terms)
    for left, right in itertools.product(first.terms, second.terms):
        moved |= find_views(cancelled_factors(left, right))
    terms = multiply_terms(first.terms, second.terms)
    signless: Terms = {}
    for monomial, number in terms.items():
        signless, _ = add_terms(signless, {without_signs(monomial): number})
    if len(signless) < len(first.terms) * len(second.terms):
        moved |= all_views(first.terms) | all_views(second.terms)
    return NormalForm(signless, moved, first.slack + second.slack)


def _raise_form(form: NormalForm | None, power: float) -> NormalForm | None:
    """Return a normal form to a power, or None if it has too many terms.

    A sum to a positive integer power is multiplied out. If the normal form is a single monomial and
    the power is an integer, the exponents of its atoms are multiplied by the power. In all other
    cases the result is a single atom.
    """
    if form is None:
        return None
    if power > 0 and power == int(power):
        result: NormalForm | None = form
        for _ in range(int(power) - 1):
            result = _multiply_forms(result, form)
        return result
    if len(form.terms) == 1 and power == int(power):
        ((monomial, number),) = form.terms.items()
        # The product of an atom and its inverse is removed later, although it is not one if the
        # atom is zero or infinite.
        moved = form.moved | find_views(monomial)
        return NormalForm(
            {raise_monomial(monomial, power): number**power}, moved, abs(power) * form.slack
        )
    inner = Inner(frozenset(form.terms.items()))
    return NormalForm({frozenset({(inner, power)}): 1.0}, form.moved, form.slack)


def summed_view(view: View) -> View | None:
    """Return the operand of a sum as a view: the axes of ``view``, then the summed axes.

    The base of ``view`` is the sum. Return None if an axis of the view is not a full axis of the
    base (`View.has_full_axes`).
    """
    source, summed_axes = view.node().inputs[0], tuple(view.node().params["axes"])
    if not view.has_full_axes:
        return None
    remaining_axes = [axis for axis in range(source.rank) if axis not in summed_axes]
    return view_of(
        source,
        (*(None if axis is None else remaining_axes[axis] for axis in view.axes), *summed_axes),
    )
