"""Values as polynomials, in whatever order their operations were written.

A value along its logical axes (a `View`) becomes a sum of monomials over *atoms*: other views,
names of sizes, sums along axes, and polynomials with an exponent that is negative or a half.

    mean((x - mean(x))^2)    mean(x^2) - mean(x)^2    (sum(x*x) - sum(x)*mean(x)) / n

are all ``sum(x^2) / n - sum(x)^2 / n^2``. A sum along axes is linear, and what does not vary along
these axes is moved outside. Two values are equal, as real numbers, if their normal forms are.

Floats are no real numbers: an infinity that is multiplied with a sum, or that cancels, may be NaN
on one side alone. The normal form says which views were ``moved`` in such a way. A recogniser that
writes a value in another order asks whether these are moderate (`may_move`); one that writes an
operator which computes the value itself need not.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import jax.numpy as jnp

from converter.fuse import magnitudes
from converter.fuse.match import Uses, operand, through
from converter.fuse.product_terms import EQUAL, exponent
from converter.ir import Value, dims, ops
from converter.ir.axes import View, along
from converter.ir.dims import Dim
from converter.ir.scalars import named_size, scalar


class Sum(NamedTuple):
    """Sum of a monomial along the last axes of its views, which have these sizes."""

    monomial: Monomial
    sizes: tuple[Dim, ...]


class Inner(NamedTuple):
    """Polynomial that is the base of a power with an exponent that is negative or a fraction."""

    terms: frozenset[tuple[Monomial, float]]


Atom: TypeAlias = "View | Sum | Inner | str"
"""A string is the name of a size."""

Monomial: TypeAlias = "frozenset[tuple[Atom, float]]"
"""Atoms with their exponents, which are integers or halves."""

Terms: TypeAlias = "dict[Monomial, float]"
"""Coefficients by their monomials, none of which is zero."""

ONE: Monomial = frozenset()

MOST_TERMS = 64
"""Monomials of the normal forms that are looked at."""

DEEPEST = 24
"""Operations above one another that are looked at."""


@dataclass(frozen=True)
class NormalForm:
    """A polynomial, and what it took to write a value so.

    ``slack`` is how far off, relatively, the rounding of constants may put a coefficient.
    """

    terms: Terms
    moved: frozenset[View] = frozenset()
    slack: float = 0.0

    def may_move(self, uses: Uses) -> bool:
        """Return whether no infinity or NaN makes a difference to the order of the operations."""
        return all(magnitudes.may_move(view.base, uses, nothing=True) for view in self.moved)

    def is_near(self, terms: Mapping[Monomial, float]) -> bool:
        """Return whether these are the terms, up to the rounding of constants."""
        if self.terms.keys() != terms.keys():
            return False
        return all(self.has_coefficient(monomial, number) for monomial, number in terms.items())

    def has_coefficient(self, monomial: Monomial, number: float) -> bool:
        """Return whether a monomial has this coefficient, up to the rounding of constants."""
        off = abs(self.terms.get(monomial, 0.0) - number)
        return off <= (EQUAL + 4 * self.slack) * abs(number)


def normal_form(view: View, uses: Uses, leaves: Sequence[Value] = ()) -> NormalForm | None:
    """Return a value as a polynomial, None if it has too many terms or operations.

    ``leaves`` are values that are atoms however they were computed.
    """
    key = normal_form, view, tuple(map(id, leaves))
    if key not in uses.memo:
        uses.memo[key] = _Reader({id(value) for value in leaves}).of(view, DEEPEST)
    form: NormalForm | None = uses.memo[key]
    return form


def count(sizes: Iterable[Dim]) -> Terms:
    """Return the number of elements of these sizes as a polynomial of names."""
    total: Terms = {ONE: 1.0}
    for size in sizes:
        total = multiplied(total, size_terms(size))
    return total


def size_terms(dim: Dim) -> Terms:
    """Return a dimension as a polynomial of names."""
    if dims.is_static(dim):
        return {ONE: float(dim)} if dim else {}

    def leaf(part: str | int) -> Terms:
        return {ONE: float(part)} if isinstance(part, int) else {frozenset({(part, 1)}): 1.0}

    def apply(name: str, parts: list[Terms]) -> Terms:
        if name in ("add", "sub") and len(parts) == 2:
            return _added(parts[0], parts[1], 1 if name == "add" else -1)[0]
        if name == "mul":
            return multiplied(*parts)
        if name == "neg":
            return {monomial: -number for monomial, number in parts[0].items()}
        if name == "pow" and parts[1].keys() == {ONE}:
            return powered(parts[0], int(parts[1][ONE]))
        return {frozenset({(f"{name}({parts})", 1)}): 1.0}

    return dims.fold_dims(dim, leaf, apply)


# ------------------------------------------------------------------------------------- polynomials


def _added(one: Terms, other: Terms, sign: float = 1.0) -> tuple[Terms, list[Monomial]]:
    """The sum, and the monomials that cancel."""
    result, cancelled = dict(one), list[Monomial]()
    for monomial, number in other.items():
        before = result.get(monomial, 0.0)
        total = before + sign * number
        result[monomial] = total
        if abs(total) <= EQUAL * max(abs(before), abs(number)):
            del result[monomial]
            cancelled.append(monomial)
    return result, cancelled


def multiplied(one: Terms, other: Terms) -> Terms:
    """Return the product of two polynomials."""
    result: Terms = {}
    for a, x in one.items():
        for b, y in other.items():
            result, _ = _added(result, {_product(a, b): x * y})
    return result


def powered(terms: Terms, power: int) -> Terms:
    """Return a polynomial to the power of an integer."""
    if power < 0 and len(terms) != 1:
        return {frozenset({(Inner(frozenset(terms.items())), power)}): 1.0}
    if power < 0:
        ((monomial, number),) = terms.items()
        return {frozenset((atom, power * own) for atom, own in monomial): number**power}
    result: Terms = {ONE: 1.0}
    for _ in range(power):
        result = multiplied(result, terms)
    return result


def _product(one: Monomial, other: Monomial) -> Monomial:
    powers = dict(one)
    for atom, power in other:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset((atom, power) for atom, power in powers.items() if power)


def _cancelled(one: Monomial, other: Monomial) -> Monomial:
    """The factors of one whose inverse is a factor of the other."""
    return frozenset(factor for factor in one if (factor[0], -factor[1]) in other)


def _without_signs(monomial: Monomial) -> Monomial:
    """The monomial with absolute values replaced by their operands in even powers."""
    result: Monomial = ONE
    for atom, power in monomial:
        is_even = isinstance(atom, View) and atom.op() is ops.abs and power % 2 == 0
        inner = operand(atom, 0) if is_even and isinstance(atom, View) else atom
        result = _product(result, frozenset({(inner, power)}))
    return result


def views_of(monomial: Monomial) -> set[View]:
    """Return all views in a monomial, those inside of sums and powers too."""
    found = set[View]()
    for atom, _ in monomial:
        if isinstance(atom, View):
            found.add(atom)
        elif isinstance(atom, Sum):
            found |= views_of(atom.monomial)
        elif isinstance(atom, Inner):
            found |= {view for inner, _ in atom.terms for view in views_of(inner)}
    return found


def _all_views(terms: Terms) -> set[View]:
    return {view for monomial in terms for view in views_of(monomial)}


# ------------------------------------------------------------------------------------------ values


class _Reader:
    """Reads values as polynomials, each of them once."""

    def __init__(self, leaves: set[int]) -> None:
        self.leaves = leaves
        self.seen: dict[View, NormalForm | None] = {}

    def of(self, view: View, depth: int) -> NormalForm | None:
        while id(view.base) not in self.leaves:
            inner = through(view, rounding=True)
            if inner is None or not inner.is_whole:
                break
            view = inner
        if view not in self.seen:
            self.seen[view] = self._of(view, depth)
        return self.seen[view]

    def _of(self, view: View, depth: int) -> NormalForm | None:
        if id(view.base) in self.leaves:
            return _atom(view)
        constant = _constant_form(view)
        if constant is not None:
            return constant
        op, is_float = view.op(), jnp.issubdtype(view.base.dtype, jnp.floating)
        if not depth or not is_float or op is None:
            return _atom(view)
        if op is ops.reduce_sum:
            return self._sum(view, depth)
        if op is ops.neg:
            return _scaled(self._operand(view, 0, depth), -1.0)
        if op in _ROOTS:
            return _power_form(self._operand(view, 0, depth), _ROOTS[op])
        if op in (ops.add, ops.sub, ops.mul, ops.div):
            one, other = (self._operand(view, index, depth) for index in (0, 1))
            if op in (ops.add, ops.sub):
                return _sum_form(one, other, 1.0 if op is ops.add else -1.0)
            return _product_form(one, other if op is ops.mul else _power_form(other, -1))
        power = _exponent(view)
        return _power_form(self._operand(view, 0, depth), power) if power else _atom(view)

    def _operand(self, view: View, index: int, depth: int) -> NormalForm | None:
        return self.of(view.operand(index), depth - 1)

    def _sum(self, view: View, depth: int) -> NormalForm | None:
        """A sum along axes, which become the last logical axes of what is summed."""
        inner = summed_view(view)
        if inner is None:
            return _atom(view)
        form, rank = self.of(inner, depth - 1), len(view.groups)
        if form is None:
            return None
        sizes = [view.node().inputs[0].shape[axis] for axis in view.node().params["axes"]]
        terms: Terms = {}
        moved = set(form.moved)
        for monomial, number in form.terms.items():
            outside, summed = _summed(monomial, sizes, rank)
            moved |= views_of(outside)
            for counted, times in summed.items():
                terms, cancelled = _added(terms, {_product(outside, counted): number * times})
                moved |= {seen for each in cancelled for seen in views_of(each)}
        return NormalForm(terms, frozenset(moved), form.slack)


_ROOTS = {ops.sqrt: 0.5, ops.rsqrt: -0.5}


def _constant_form(view: View) -> NormalForm | None:
    """A number, or a named size."""
    number, size = scalar(view.base), named_size(view.base)
    if size is not None:
        return NormalForm(size_terms(size))
    if number is None or isinstance(number, bool) or not math.isfinite(number):
        return None
    rounds = jnp.issubdtype(view.base.dtype, jnp.floating) and number != int(number)
    slack = float(jnp.finfo(view.base.dtype).eps) if rounds else 0.0
    return NormalForm({ONE: float(number)} if number else {}, slack=slack)


def _atom(view: View) -> NormalForm:
    return NormalForm({frozenset({(view, 1)}): 1.0})


def _exponent(view: View) -> float:
    """The exponent of a power that is small, an integer or a half; 0 where it is none."""
    number: Any = exponent(view)
    if view.op() is ops.pow and not number:
        number = scalar(operand(view, 1).base)
    known = number is not None and not isinstance(number, bool)
    return float(number) if known and abs(number) <= 4 and 2 * number == int(2 * number) else 0


def _scaled(form: NormalForm | None, number: float) -> NormalForm | None:
    if form is None:
        return None
    terms = {monomial: number * own for monomial, own in form.terms.items()}
    return NormalForm(terms, form.moved, form.slack)


def _sum_form(one: NormalForm | None, other: NormalForm | None, sign: float) -> NormalForm | None:
    if one is None or other is None or len(one.terms) + len(other.terms) > MOST_TERMS:
        return None
    terms, cancelled = _added(one.terms, other.terms, sign)
    moved = one.moved | other.moved | {view for each in cancelled for view in views_of(each)}
    return NormalForm(terms, moved, max(one.slack, other.slack))


def _product_form(one: NormalForm | None, other: NormalForm | None) -> NormalForm | None:
    if one is None or other is None or len(one.terms) * len(other.terms) > MOST_TERMS:
        return None
    moved = one.moved | other.moved
    for own, factor in ((one, other), (other, one)):
        if len(own.terms) != 1:  # the other is distributed; of nothing it is lost
            moved |= _all_views(factor.terms)
    for left, right in itertools.product(one.terms, other.terms):
        moved |= views_of(_cancelled(left, right))
    terms = multiplied(one.terms, other.terms)
    signless: Terms = {}
    for monomial, number in terms.items():
        signless, _ = _added(signless, {_without_signs(monomial): number})
    if len(signless) < len(one.terms) * len(other.terms):
        moved |= _all_views(one.terms) | _all_views(other.terms)
    return NormalForm(signless, moved, one.slack + other.slack)


def _power_form(form: NormalForm | None, power: float) -> NormalForm | None:
    """A power: of one monomial that of its factors, a small positive one multiplied out."""
    if form is None:
        return None
    if power > 0 and power == int(power):
        result: NormalForm | None = form
        for _ in range(int(power) - 1):
            result = _product_form(result, form)
        return result
    if len(form.terms) == 1 and power == int(power):
        ((monomial, number),) = form.terms.items()
        # An atom and its inverse cancel, which zeros and infinities do not.
        inverted = frozenset((atom, own * power) for atom, own in monomial)
        moved = form.moved | views_of(monomial)
        return NormalForm({inverted: number**power}, moved, abs(power) * form.slack)
    inner = Inner(frozenset(form.terms.items()))
    return NormalForm({frozenset({(inner, power)}): 1.0}, form.moved, form.slack)


def summed_view(view: View) -> View | None:
    """Return what a sum is taken of, the axes that are lost last; None if parts of it are seen."""
    source, lost = view.node().inputs[0], tuple(view.node().params["axes"])
    if not view.is_whole:
        return None
    kept = [axis for axis in range(source.rank) if axis not in lost]
    return along(source, (*(None if axis is None else kept[axis] for axis in view.axes), *lost))


def _summed(monomial: Monomial, sizes: Sequence[Dim], rank: int) -> tuple[Monomial, Terms]:
    """The factors that do not vary along the axes from ``rank`` on, and the sum of the others."""
    lost = range(rank, rank + len(sizes))
    varying = frozenset(f for f in monomial if any(_varies(f[0], axis) for axis in lost))
    along_axes = [a for a in lost if any(_varies(atom, a) for atom, _ in varying)]
    others = [a for a in lost if a not in along_axes]
    outside = _dropped(monomial - varying, lost)
    total = count(sizes[axis - rank] for axis in others)
    if not varying:
        return outside, total
    inner, summed = _dropped(varying, others), tuple(sizes[axis - rank] for axis in along_axes)
    atom = _nested(Sum(inner, summed), rank)
    return outside, {_product(own, frozenset({(atom, 1)})): n for own, n in total.items()}


def _nested(total: Sum, rank: int) -> Sum:
    """A sum of a sum as one, its axes in the order of those of the views' bases."""
    factors = [*total.monomial]
    if len(factors) == 1 and isinstance(factors[0][0], Sum) and factors[0][1] == 1:
        inner = factors[0][0]
        total = Sum(inner.monomial, (*total.sizes, *inner.sizes))
    views = sorted(views_of(total.monomial), key=lambda view: (id(view.base), str(view.groups)))
    lost = range(len(total.sizes))
    order = sorted(lost, key=lambda i: str([view.groups[rank + i] for view in views]))
    moved = [*range(rank), *(rank + i for i in order)]
    return Sum(_taken(total.monomial, moved), tuple(total.sizes[i] for i in order))


def _varies(atom: Atom, axis: int) -> bool:
    if isinstance(atom, View):
        return bool(atom.groups[axis])
    if isinstance(atom, Sum):
        return any(_varies(inner, axis) for inner, _ in atom.monomial)
    if isinstance(atom, Inner):
        return any(_varies(inner, axis) for monomial, _ in atom.terms for inner, _ in monomial)
    return False


def _dropped(monomial: Monomial, axes: Iterable[int]) -> Monomial:
    """The monomial without logical axes along which nothing varies."""
    gone = {*axes}

    def drop(atom: Atom) -> Atom:
        if isinstance(atom, View):
            return atom.take([i for i in range(len(atom.groups)) if i not in gone])
        if isinstance(atom, Sum):
            return Sum(_dropped(atom.monomial, gone), atom.sizes)
        if isinstance(atom, Inner):
            return Inner(frozenset((_dropped(m, gone), number) for m, number in atom.terms))
        return atom

    return frozenset((drop(atom), power) for atom, power in monomial)


def _taken(monomial: Monomial, order: Sequence[int]) -> Monomial:
    """The monomial with its first logical axes in another order."""

    def take(atom: Atom) -> Atom:
        if isinstance(atom, View):
            return atom.take([*order, *range(len(order), len(atom.groups))])
        if isinstance(atom, Sum):
            return Sum(_taken(atom.monomial, order), atom.sizes)
        if isinstance(atom, Inner):
            return Inner(frozenset((_taken(m, order), number) for m, number in atom.terms))
        return atom

    return frozenset((take(atom), power) for atom, power in monomial)
