"""The sizes of named dimensions: where they are read off, and what is said of them beforehand."""

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from jax import export

from converter.ir import dims
from converter.ir.dims import Dim, Shape

Sizes: TypeAlias = Mapping[str, int]

_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "==": operator.eq,
    ">=": operator.ge,
    "<=": operator.le,
}


@dataclass(frozen=True)
class Origin:
    """Axis ``axis`` of input ``index`` is ``factor`` times the name, and ``rest`` more."""

    index: int
    axis: int
    factor: int = 1
    rest: Dim = 0


def find_origins(shapes: Sequence[Shape]) -> dict[str, Origin]:
    """Where each name is read off, in an order in which it can be.

    An axis that is the name, else the least multiple of it, else one that is linear in it and
    otherwise of names that are known by then: ``h+1``, ``2*N+h``.
    """
    solved: dict[str, Origin] = {}
    named = [
        (i, axis, dim)
        for i, shape in enumerate(shapes)
        for axis, dim in enumerate(shape)
        if not dims.is_static(dim)
    ]
    for i, axis, dim in named:
        (name, *others) = size_names(dim)
        factor, summand = (0, 0) if others else _linear(dim, name)
        if (
            factor
            and dims.same(summand, 0)
            and (name not in solved or factor < solved[name].factor)
        ):
            solved[name] = Origin(i, axis, factor)
    while more := next(_solved(named, solved), None):
        solved.update([more])
    return solved


def _solved(
    named: Sequence[tuple[int, int, Dim]], solved: Mapping[str, Origin]
) -> Iterator[tuple[str, Origin]]:
    for i, axis, dim in named:
        unknown = size_names(dim) - solved.keys()
        if len(unknown) == 1:
            (name,) = unknown
            factor, summand = _linear(dim, name)
            if factor:
                yield name, Origin(i, axis, factor, summand)


def _linear(dim: Dim, name: str) -> tuple[int, Dim]:
    """``dim`` as a multiple of a name and the rest; a factor of zero if it is not linear in it."""
    ones = dict.fromkeys(size_names(dim), 1)
    factor = dims.evaluate_dim(dim, {**ones, name: 2}) - dims.evaluate_dim(dim, ones)
    (size,) = export.symbolic_shape(name, scope=dim.scope)
    summand = dims.as_dim(dim - factor * size)
    return (0, dim) if name in size_names(summand) else (factor, summand)


def read_sizes(shapes: Sequence[Shape], array_shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """The sizes of the names in ``shapes`` where arrays have ``array_shapes``."""
    sizes: dict[str, int] = {}
    for name, origin in find_origins(shapes).items():
        whole = array_shapes[origin.index][origin.axis]
        sizes[name] = (whole - dims.evaluate_dim(origin.rest, sizes)) // origin.factor
    return sizes


def size_names(expression: Dim | str) -> set[str]:
    """The names in a dimension, or in the text of one."""
    if dims.is_static(expression):
        return set()
    return dims.fold_dims(
        expression,
        lambda x: {x} if isinstance(x, str) else set[str](),
        lambda _, parts: set[str]().union(*parts),
    )


def all_names(arrays: Iterable[Any]) -> list[str]:
    names_of_sizes = (size_names(dim) for array in arrays for dim in array.shape)
    return sorted(set[str]().union(*names_of_sizes))


# -------------------------------------------------------------------------------- constraints


@dataclass(frozen=True)
class Constraint:
    """``B >= 2``, ``mod(h, 16) == 0``, ``h == w``."""

    text: str
    names: frozenset[str]
    holds: Callable[[Sizes], bool]


def parse_constraint(text: str) -> Constraint:
    """Read a constraint that JAX has read already."""
    left, comparison, right = (part.strip() for part in re.split("(==|>=|<=)", text, maxsplit=1))
    compare = _COMPARISONS[comparison]

    def holds(sizes: Sizes) -> bool:
        return compare(dims.evaluate_dim(left, sizes), dims.evaluate_dim(right, sizes))

    return Constraint(text, frozenset(size_names(left) | size_names(right)), holds)


def find_broken_constraint(constraints: Iterable[str], sizes: Sizes) -> str | None:
    """The first constraint that sizes do not obey.

    A name that is in no shape, as JAX has put another in its place, is what a constraint equates
    it with.
    """
    sizes_by_name = dict(sizes)
    for each in map(parse_constraint, constraints):
        left, _, right = each.text.partition("==")
        if (
            right
            and left.strip().isidentifier()
            and size_names(right.strip()) <= sizes_by_name.keys()
        ):
            sizes_by_name.setdefault(left.strip(), dims.evaluate_dim(right.strip(), sizes_by_name))
        if each.names <= sizes_by_name.keys() and not each.holds(sizes_by_name):
            return each.text
    return None


FURTHEST = 64
"""So far a size may be from what is wanted, or from a number in a constraint, to obey it."""


def nearest_sizes(asked: Sizes, constraints: Iterable[str]) -> dict[str, int] | None:
    """The sizes that constraints allow near to those that are wanted; none if there are none."""
    read_sizes = [parse_constraint(text) for text in constraints]
    extra = set[str]().union(*(c.names for c in read_sizes)) - asked.keys()
    numbers = {int(number) for c in read_sizes for number in re.findall(r"\b\d+\b", c.text)}
    targets = {**asked, **dict.fromkeys(sorted(extra), 1)}

    def search(sizes: dict[str, int], open_: Sequence[str]) -> dict[str, int] | None:
        if not open_:
            return sizes
        first, *others = open_
        due = [c for c in read_sizes if first in c.names and c.names <= {*sizes, first}]
        for size in _around(targets[first], numbers):
            tried = {**sizes, first: size}
            if all(c.holds(tried) for c in due) and (allowed := search(tried, others)):
                return allowed
        return None

    return search({}, list(targets))


def _around(size: int, numbers: set[int]) -> list[int]:
    """Sizes of at least one near to these, those nearest to ``size`` first."""
    steps = range(-FURTHEST, FURTHEST + 1)
    near = {number + step for number in (size, *numbers) for step in steps}
    return sorted((n for n in near if n >= 1), key=lambda n: (abs(n - size), -n))
