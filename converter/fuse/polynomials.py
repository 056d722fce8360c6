"""Polynomials over atoms: views, names of sizes, sums along axes, and powers of polynomials.

A polynomial is a dictionary from monomials to coefficients. `normal_form` reads values as
polynomials.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from converter.fuse.match import operand
from converter.ir import dims, ops
from converter.ir.axes import View
from converter.ir.dims import Dim


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

EQUAL = 1e-6
"""Relative difference of constants that count as equal: people write about as many digits."""


# -------------------------------------------------------------------------------------- sizes


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
            return add_terms(parts[0], parts[1], 1 if name == "add" else -1)[0]
        if name == "mul":
            return multiply_terms(*parts)
        if name == "neg":
            return {monomial: -number for monomial, number in parts[0].items()}
        if name == "pow" and parts[1].keys() == {ONE}:
            return raise_terms(parts[0], int(parts[1][ONE]))
        return {frozenset({(f"{name}({parts})", 1)}): 1.0}

    return dims.fold_dims(dim, leaf, apply)


# --------------------------------------------------------------------------------- arithmetic


def add_terms(left: Terms, right: Terms, sign: float = 1.0) -> tuple[Terms, list[Monomial]]:
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
            result, _ = add_terms(result, {multiply_monomials(a, b): x * y})
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
        return {raise_monomial(monomial, power): number**power}
    result: Terms = {ONE: 1.0}
    for _ in range(power):
        result = multiply_terms(result, terms)
    return result


def multiply_monomials(left: Monomial, right: Monomial) -> Monomial:
    """Return the product of two monomials: the exponents of equal atoms are added."""
    if not left or not right:
        return left or right
    powers = dict(left)
    for atom, power in right:
        powers[atom] = powers.get(atom, 0) + power
    return frozenset((atom, power) for atom, power in powers.items() if power)


def raise_monomial(monomial: Monomial, power: float) -> Monomial:
    """Return a monomial to a power: the exponents of its atoms are multiplied by the power."""
    return frozenset((atom, power * atom_power) for atom, atom_power in monomial)


def cancelled_factors(left: Monomial, right: Monomial) -> Monomial:
    """Return the factors of ``left`` of which ``right`` has powers with the opposite sign."""
    if not left or not right:
        return ONE
    powers = dict(right)
    return frozenset((atom, power) for atom, power in left if power * powers.get(atom, 0) < 0)


def without_signs(monomial: Monomial) -> Monomial:
    """Return the monomial with absolute values in even powers replaced by their operands."""
    result: Monomial = ONE
    for atom, power in monomial:
        is_even = isinstance(atom, View) and atom.op() is ops.abs and power % 2 == 0
        inner = operand(atom, 0) if is_even and isinstance(atom, View) else atom
        result = multiply_monomials(result, frozenset({(inner, power)}))
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


def all_views(terms: Terms) -> set[View]:
    """Return all views in a polynomial."""
    return {view for monomial in terms for view in find_views(monomial)}


# --------------------------------------------------------------------------------- sums along axes


def sum_monomial(monomial: Monomial, sizes: Sequence[Dim], rank: int) -> tuple[Monomial, Terms]:
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
        multiply_monomials(size_monomial, frozenset({(atom, 1)})): n
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
    return _select_axes(monomial, lambda rank: [i for i in range(rank) if i not in dropped])


def _permute_axes(monomial: Monomial, order: Sequence[int]) -> Monomial:
    """Return the monomial with the first ``len(order)`` logical axes of all its views permuted.

    Axis i of a new view is axis ``order[i]`` of the old one. The axes after these keep their order.
    """
    return _select_axes(monomial, lambda rank: [*order, *range(len(order), rank)])


def _select_axes(monomial: Monomial, select: Callable[[int], Sequence[int]]) -> Monomial:
    """Return the monomial with other logical axes of all its views, including those in sums and
    powers.

    ``select`` returns the axes of a new view from the number of axes of the old one.
    """

    def select_in(atom: Atom) -> Atom:
        if isinstance(atom, View):
            return atom.select_axes(select(len(atom.groups)))
        if isinstance(atom, Sum):
            return Sum(_select_axes(atom.monomial, select), atom.sizes)
        if isinstance(atom, Inner):
            return Inner(frozenset((_select_axes(m, select), number) for m, number in atom.terms))
        return atom

    return frozenset((select_in(atom), power) for atom, power in monomial)
