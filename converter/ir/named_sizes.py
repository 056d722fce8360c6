"""Sizes of named dimensions: the inputs that determine them, and the constraints on them."""

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
    """The axis of an input from which the size of a name is read.

    Axis ``axis`` of input ``index`` has size ``factor * name + summand``. ``summand`` may have
    names that are solved before.
    """

    index: int
    axis: int
    factor: int = 1
    summand: Dim = 0


def find_origins(shapes: Sequence[Shape]) -> dict[str, Origin]:
    """Return for each name the axis of an input that determines its size.

    ``shapes`` are the shapes of the inputs. The names are in an order in which they can be solved.
    A name that no axis determines is left out. An axis whose size is the name alone is preferred,
    then the least multiple of the name. The last choice is an axis such as ``h+1`` or ``2*N+h``: it
    is linear in the name, and its other names are solved before.
    """
    solved: dict[str, Origin] = {}
    named = [
        (i, axis, dim)
        for i, shape in enumerate(shapes)
        for axis, dim in enumerate(shape)
        if not dims.is_static(dim)
    ]
    for i, axis, dim in named:
        (name, *other_names) = size_names(dim)
        factor, summand = (0, 0) if other_names else _split_linear(dim, name)
        if (
            factor
            and dims.is_same_dim(summand, 0)
            and (name not in solved or factor < solved[name].factor)
        ):
            solved[name] = Origin(i, axis, factor)
    while solution := next(_solve_names(named, solved), None):
        solved.update([solution])
    return solved


def _solve_names(
    named: Sequence[tuple[int, int, Dim]], solved: Mapping[str, Origin]
) -> Iterator[tuple[str, Origin]]:
    """Yield the unsolved names that an axis determines, with their origins.

    An axis determines a name if it is the only unsolved name in the size of the axis. ``named``
    contains the input, the axis and the size of each symbolic axis. ``solved`` has the origins of
    the solved names.
    """
    for i, axis, dim in named:
        unknown = size_names(dim) - solved.keys()
        if len(unknown) == 1:
            (name,) = unknown
            factor, summand = _split_linear(dim, name)
            if factor:
                yield name, Origin(i, axis, factor, summand)


def _split_linear(dim: Dim, name: str) -> tuple[int, Dim]:
    """Return the factor and the summand of ``dim = factor * name + summand``.

    If ``dim`` is not linear in the name, return 0 and ``dim``.
    """
    ones = dict.fromkeys(size_names(dim), 1)
    factor = dims.evaluate_dim(dim, {**ones, name: 2}) - dims.evaluate_dim(dim, ones)
    (size,) = export.symbolic_shape(name, scope=dim.scope)
    summand = dims.as_dim(dim - factor * size)
    return (0, dim) if name in size_names(summand) else (factor, summand)


def read_sizes(shapes: Sequence[Shape], array_shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the size of each name in ``shapes``, read from the shapes of arrays.

    ``shapes`` are the shapes of the inputs, with named dimensions. ``array_shapes`` are the shapes
    of the arrays for these inputs, in the same order. Each name is read from one axis
    (`find_origins`). It is not checked that other axes agree. If a size is no multiple of its
    factor, the quotient is rounded down.
    """
    sizes: dict[str, int] = {}
    for name, origin in find_origins(shapes).items():
        size = array_shapes[origin.index][origin.axis]
        sizes[name] = (size - dims.evaluate_dim(origin.summand, sizes)) // origin.factor
    return sizes


def size_names(expression: Dim | str) -> set[str]:
    """Return the names in a dimension or in the text of one: {"h", "w"} for ``2*h+w``."""
    if dims.is_static(expression):
        return set()
    return dims.fold_dims(
        expression,
        lambda x: {x} if isinstance(x, str) else set[str](),
        lambda _, parts: set[str]().union(*parts),
    )


def all_names(arrays: Iterable[Any]) -> list[str]:
    """Return the sorted names of dimensions in the shapes of arrays, values or types."""
    names_of_sizes = (size_names(dim) for array in arrays for dim in array.shape)
    return sorted(set[str]().union(*names_of_sizes))


# -------------------------------------------------------------------------------- constraints


@dataclass(frozen=True)
class Constraint:
    """A condition on named sizes, such as ``B >= 2``, ``mod(h, 16) == 0`` or ``h == w``.

    ``names`` are the names in it. ``holds(sizes)`` returns True if the sizes satisfy it. They must
    contain all ``names``.
    """

    text: str
    names: frozenset[str]
    holds: Callable[[Sizes], bool]


def parse_constraint(text: str) -> Constraint:
    """Parse a constraint such as ``mod(h, 16) == 0``. JAX must have accepted the text before."""
    left, comparison, right = (part.strip() for part in re.split("(==|>=|<=)", text, maxsplit=1))
    compare = _COMPARISONS[comparison]

    def holds(sizes: Sizes) -> bool:
        return compare(dims.evaluate_dim(left, sizes), dims.evaluate_dim(right, sizes))

    return Constraint(text, frozenset(size_names(left) | size_names(right)), holds)


def find_broken_constraint(constraints: Iterable[str], sizes: Sizes) -> str | None:
    """Return the text of the first constraint that these sizes violate, or None.

    ``sizes`` maps names to sizes. A constraint counts as satisfied if it contains a name of unknown
    size. JAX may have replaced a name by an expression, so that no shape contains the name. The
    name then has the size of the expression that a constraint sets equal to it.
    """
    sizes_by_name = dict(sizes)
    for parsed in map(parse_constraint, constraints):
        left, _, right = parsed.text.partition("==")
        if (
            right
            and left.strip().isidentifier()
            and size_names(right.strip()) <= sizes_by_name.keys()
        ):
            sizes_by_name.setdefault(left.strip(), dims.evaluate_dim(right.strip(), sizes_by_name))
        if parsed.names <= sizes_by_name.keys() and not parsed.holds(sizes_by_name):
            return parsed.text
    return None


SEARCH_RADIUS = 64
"""Largest distance of a searched size from the requested one, or from a number in a constraint."""


def find_allowed_sizes(requested: Sizes, constraints: Iterable[str]) -> dict[str, int] | None:
    """Return sizes near the requested ones that obey the constraints, or None if none were found.

    ``requested`` maps names to sizes. Names that occur only in the constraints are added, with
    sizes near 1. All sizes are at least 1. Sizes further than `SEARCH_RADIUS` from the requested
    ones, and from the numbers in the constraints, are not searched.
    """
    parsed = [parse_constraint(text) for text in constraints]
    extra = set[str]().union(*(c.names for c in parsed)) - requested.keys()
    numbers = {int(number) for c in parsed for number in re.findall(r"\b\d+\b", c.text)}
    targets = {**requested, **dict.fromkeys(sorted(extra), 1)}

    def search(sizes: dict[str, int], open_names: Sequence[str]) -> dict[str, int] | None:
        """Return sizes that obey all constraints, or None. ``sizes`` are chosen already,
        ``open_names`` are not."""
        if not open_names:
            return sizes
        name, *other_names = open_names
        decidable = [c for c in parsed if name in c.names and c.names <= {*sizes, name}]
        for size in _sizes_near(targets[name], numbers):
            candidate = {**sizes, name: size}
            if all(c.holds(candidate) for c in decidable) and (
                allowed := search(candidate, other_names)
            ):
                return allowed
        return None

    return search({}, list(targets))


def _sizes_near(size: int, numbers: set[int]) -> list[int]:
    """Return candidates for a size of at least one, sorted by their distance to ``size``.

    They are all within ``SEARCH_RADIUS`` of ``size`` or of one of ``numbers``, the numbers in the
    constraints.
    """
    steps = range(-SEARCH_RADIUS, SEARCH_RADIUS + 1)
    candidates = {number + step for number in (size, *numbers) for step in steps}
    return sorted((n for n in candidates if n >= 1), key=lambda n: (abs(n - size), -n))
