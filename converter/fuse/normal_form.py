"""Values as polynomials, independent of the order of their operations.

A value along its logical axes (a `View`) becomes a sum of monomials over *atoms*: other views,
names of sizes, sums along axes, and polynomials with an exponent that is negative or a half.

    mean((x - mean(x))^2)    mean(x^2) - mean(x)^2    (sum(x*x) - sum(x)*mean(x)) / n

are all ``sum(x^2) / n - sum(x)^2 / n^2``. A sum along axes is linear, and a factor that does not
vary along these axes is moved out of it. Two values are equal, as real numbers, if their normal
forms are equal.

Floats are not real numbers: an infinity that is multiplied with a sum, or that cancels, may be NaN
on one side only. The normal form records the views that were ``moved`` in this way. A recogniser
that emits a value in another order checks that they are moderate (`may_move`). This is not
necessary if the emitted operator computes the value itself.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp

from converter.fuse import magnitudes
from converter.fuse.match import MatchContext, operand
from converter.fuse.product_terms import EQUAL, LARGEST_NUMBER, exponent
from converter.ir import Value, dims, ops
from converter.ir.axes import View, view_of
from converter.ir.dims import Dim
from converter.ir.moves import Conversions, Reach, look_through
from converter.ir.scalars import named_size, scalar


class Sum(NamedTuple):
    """Sum of a monomial along the last axes of its views. ``sizes`` are the sizes of these axes."""

    monomial: Monomial
    sizes: tuple[Dim, ...]


class Inner(NamedTuple):
    """Polynomial that is the base of a power with a negative or fractional exponent.

    ``terms`` are its monomials with their coefficients.
    """

    terms: frozenset[tuple[Monomial, float]]


Atom: TypeAlias = "View | Sum | Inner | str"
"""A string is the name of a size."""

Monomial: TypeAlias = "frozenset[tuple[Atom, float]]"
"""Atoms with their exponents, which are integers or halves."""

Terms: TypeAlias = "dict[Monomial, float]"
"""Nonzero coefficients by their monomials."""

ONE: Monomial = frozenset()

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

    def may_move(self, context: MatchContext) -> bool:
        """Return True if all ``moved`` views have moderate numbers, so that the order makes no
        difference."""
        return all(magnitudes.may_move(view.base, context, allow_zero=True) for view in self.moved)

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


def normal_form(
    view: View,
    context: MatchContext,
    leaves: Sequence[Value] = (),
    *,
    conversions: Conversions = "rounding",
    reach: Reach = "axes",
) -> NormalForm | None:
    """Return a value as a polynomial, or None if it would have more than `MAX_TERMS` terms.

    Arithmetic, roots, powers and sums of floats are taken apart, up to a depth of `MAX_DEPTH`
    operations. All other values are atoms of the polynomial. ``leaves`` are further values that are
    atoms, even if they are results of arithmetic. ``conversions`` and ``reach`` select the
    conversions and moves between the operations that are skipped, as in `look_through`.
    """
    key = normal_form, view, tuple(map(id, leaves)), conversions, reach
    if key not in context.memo:
        reader = _Reader({id(value) for value in leaves}, conversions, reach)
        context.memo[key] = reader.of(view, MAX_DEPTH)
    form: NormalForm | None = context.memo[key]
    return form


def count_terms(sizes: Iterable[Dim]) -> Terms:
    """Return the product of these sizes as a polynomial over the names of sizes.

    Example: ``(2, n)`` gives ``2 * n``.
    """
    total: Terms = {ONE: 1.0}
    for size in sizes:
        total = multiply_terms(total, size_terms(size))
    return total


def size_terms(dim: Dim) -> Terms:
    """Return one dimension as a polynomial over the names of sizes.

    Example: ``2 * n + 1`` has the monomials ``n`` and 1. Another function of sizes, such as a floor
    division, is one atom.
    """
    if dims.is_static(dim):
        return {ONE: float(dim)} if dim else {}

    def leaf(part: str | int) -> Terms:
        return {ONE: float(part)} if isinstance(part, int) else {frozenset({(part, 1)}): 1.0}

    def apply(name: str, parts: list[Terms]) -> Terms:
        if name in ("add", "sub") and len(parts) == 2:
            return _add_terms(parts[0], parts[1], 1 if name == "add" else -1)[0]
        if name == "mul":
            return multiply_terms(*parts)
        if name == "neg":
            return {monomial: -number for monomial, number in parts[0].items()}
        if name == "pow" and parts[1].keys() == {ONE}:
            return raise_terms(parts[0], int(parts[1][ONE]))
        return {frozenset({(f"{name}({parts})", 1)}): 1.0}

    return dims.fold_dims(dim, leaf, apply)


# ------------------------------------------------------------------------------------- polynomials


def _add_terms(left: Terms, right: Terms, sign: float = 1.0) -> tuple[Terms, list[Monomial]]:
    """Return ``left + sign * right``, and the monomials that cancel."""
    result, cancelled = dict(left), list[Monomial]()
    for monomial, number in right.items():
        previous = result.get(monomial, 0.0)
        total = previous + sign * number
        result[monomial] = total
        if abs(total) <= EQUAL * max(abs(previous), abs(number)):
            del result[monomial]
            cancelled.append(monomial)
    return result, cancelled


def multiply_terms(left: Terms, right: Terms) -> Terms:
    """Return the product of two polynomials."""
    result: Terms = {}
    for a, x in left.items():
        for b, y in right.items():
            result, _ = _add_terms(result, {_multiply_monomials(a, b): x * y})
    return result


def raise_terms(terms: Terms, power: int) -> Terms:
    """Return a polynomial to the power of an integer.

    A negative power of a polynomial that is zero or has several monomials is a single atom
    (`Inner`).
    """
    if power < 0 and len(terms) != 1:
        return {frozenset({(Inner(frozenset(terms.items())), power)}): 1.0}
    if power < 0:
        ((monomial, number),) = terms.items()
        return {
            frozenset((atom, power * atom_power) for atom, atom_power in monomial): number**power
        }
    result: Terms = {ONE: 1.0}
    for _ in range(power):
        result = multiply_terms(result, terms)
    return result


def _multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    """Return the product of two monomials: the exponents of equal atoms are added."""
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset((atom, power) for atom, power in powers.items() if power)


def _cancelled_factors(left: Monomial, right: Monomial) -> Monomial:
    """Return the factors of ``left`` that are cancelled by their inverses in ``right``."""
    return frozenset(factor for factor in left if (factor[0], -factor[1]) in right)


def _without_signs(monomial: Monomial) -> Monomial:
    """Return the monomial with absolute values in even powers replaced by their operands."""
    result: Monomial = ONE
    for atom, power in monomial:
        is_even = isinstance(atom, View) and atom.op() is ops.abs and power % 2 == 0
        inner = operand(atom, 0) if is_even and isinstance(atom, View) else atom
        result = _multiply_monomials(result, frozenset({(inner, power)}))
    return result


def find_views(monomial: Monomial) -> set[View]:
    """Return all views in a monomial, including those in sums and powers."""
    views = set[View]()
    for atom, _ in monomial:
        if isinstance(atom, View):
            views.add(atom)
        elif isinstance(atom, Sum):
            views |= find_views(atom.monomial)
        elif isinstance(atom, Inner):
            views |= {view for inner, _ in atom.terms for view in find_views(inner)}
    return views


def _all_views(terms: Terms) -> set[View]:
    """Return all views in a polynomial."""
    return {view for monomial in terms for view in find_views(monomial)}


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
        power = _exponent(view)
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
            outer_factors, inner_sums = _sum_monomial(monomial, sizes, rank)
            moved |= find_views(outer_factors)
            for inner_monomial, multiplicity in inner_sums.items():
                terms, cancelled = _add_terms(
                    terms,
                    {_multiply_monomials(outer_factors, inner_monomial): number * multiplicity},
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
    if number is None or isinstance(number, bool) or not _is_joinable(number):
        return None
    rounds = jnp.issubdtype(view.base.dtype, jnp.floating) and number != int(number)
    slack = float(jnp.finfo(view.base.dtype).eps) if rounds else 0.0
    return NormalForm({ONE: float(number)} if number else {}, slack=slack)


def _is_joinable(number: float) -> bool:
    """Return True if a constant may be multiplied with others in advance, so that no order
    overflows: it is zero, or from 1/`LARGEST_NUMBER` to `LARGEST_NUMBER` in absolute value."""
    return number == 0 or 1 / LARGEST_NUMBER <= abs(number) <= LARGEST_NUMBER


def _atom_form(view: View) -> NormalForm:
    """Return the polynomial that is the view itself, as one atom."""
    return NormalForm({frozenset({(view, 1)}): 1.0})


def _exponent(view: View) -> float:
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
    terms, cancelled = _add_terms(left.terms, right.terms, sign)
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
            moved |= _all_views(factor.terms)
    for left, right in itertools.product(first.terms, second.terms):
        moved |= find_views(_cancelled_factors(left, right))
    terms = multiply_terms(first.terms, second.terms)
    signless: Terms = {}
    for monomial, number in terms.items():
        signless, _ = _add_terms(signless, {_without_signs(monomial): number})
    if len(signless) < len(first.terms) * len(second.terms):
        moved |= _all_views(first.terms) | _all_views(second.terms)
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
        inverted = frozenset((atom, atom_power * power) for atom, atom_power in monomial)
        moved = form.moved | find_views(monomial)
        return NormalForm({inverted: number**power}, moved, abs(power) * form.slack)
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


def _sum_monomial(monomial: Monomial, sizes: Sequence[Dim], rank: int) -> tuple[Monomial, Terms]:
    """Return the sum of a monomial along its axes from ``rank`` on, as two factors.

    The first factor is a monomial of the views that do not vary along these axes, without these
    axes. The second is the sum of the other views, as a polynomial. If nothing varies along one of
    the axes, its size is a factor of the polynomial. ``sizes`` are the sizes of the axes.
    """
    summed_axes = range(rank, rank + len(sizes))
    varying = frozenset(f for f in monomial if any(_varies(f[0], axis) for axis in summed_axes))
    along_axes = [a for a in summed_axes if any(_varies(atom, a) for atom, _ in varying)]
    constant_axes = [a for a in summed_axes if a not in along_axes]
    outer_factors = _drop_axes(monomial - varying, summed_axes)
    total = count_terms(sizes[axis - rank] for axis in constant_axes)
    if not varying:
        return outer_factors, total
    inner, summed = _drop_axes(varying, constant_axes), tuple(sizes[a - rank] for a in along_axes)
    atom = _merge_sums(Sum(inner, summed), rank)
    return outer_factors, {
        _multiply_monomials(size_monomial, frozenset({(atom, 1)})): n
        for size_monomial, n in total.items()
    }


def _merge_sums(total: Sum, rank: int) -> Sum:
    """Return a sum of a sum as one sum.

    The order of the summed axes of the result depends only on the views in it. ``rank`` is the
    number of logical axes before the summed axes. A sum of anything else is only brought into this
    order.
    """
    factors = [*total.monomial]
    if len(factors) == 1 and isinstance(factors[0][0], Sum) and factors[0][1] == 1:
        inner = factors[0][0]
        total = Sum(inner.monomial, (*total.sizes, *inner.sizes))
    views = sorted(find_views(total.monomial), key=lambda view: (id(view.base), str(view.groups)))
    axis_numbers = range(len(total.sizes))
    order = sorted(axis_numbers, key=lambda i: str([view.groups[rank + i] for view in views]))
    axis_order = [*range(rank), *(rank + i for i in order)]
    return Sum(_permute_axes(total.monomial, axis_order), tuple(total.sizes[i] for i in order))


def _varies(atom: Atom, axis: int) -> bool:
    """Return True if the elements of an atom may differ along a logical axis of the views in it.

    A view varies unless it repeats the same elements along the axis. A sum or an `Inner` varies if
    one of its atoms does. The name of a size never does.
    """
    if isinstance(atom, View):
        return bool(atom.groups[axis])
    if isinstance(atom, Sum):
        return any(_varies(inner, axis) for inner, _ in atom.monomial)
    if isinstance(atom, Inner):
        return any(_varies(inner, axis) for monomial, _ in atom.terms for inner, _ in monomial)
    return False


def _drop_axes(monomial: Monomial, axes: Iterable[int]) -> Monomial:
    """Return the monomial with these logical axes removed from its views. The views must not vary
    along these axes."""
    dropped = {*axes}

    def drop(atom: Atom) -> Atom:
        if isinstance(atom, View):
            return atom.select_axes([i for i in range(len(atom.groups)) if i not in dropped])
        if isinstance(atom, Sum):
            return Sum(_drop_axes(atom.monomial, dropped), atom.sizes)
        if isinstance(atom, Inner):
            return Inner(frozenset((_drop_axes(m, dropped), number) for m, number in atom.terms))
        return atom

    return frozenset((drop(atom), power) for atom, power in monomial)


def _permute_axes(monomial: Monomial, order: Sequence[int]) -> Monomial:
    """Return the monomial with the first ``len(order)`` logical axes of all its views permuted.

    Axis i of a new view is axis ``order[i]`` of the old one. The axes after these keep their order.
    """

    def take(atom: Atom) -> Atom:
        if isinstance(atom, View):
            return atom.select_axes([*order, *range(len(order), len(atom.groups))])
        if isinstance(atom, Sum):
            return Sum(_permute_axes(atom.monomial, order), atom.sizes)
        if isinstance(atom, Inner):
            return Inner(frozenset((_permute_axes(m, order), number) for m, number in atom.terms))
        return atom

    return frozenset((take(atom), power) for atom, power in monomial)
