"""Parameters that a function looks at in Python, which have to be numbers while it is traced.

A model that calls numpy on its own weights, or compares one in an ``if``, cannot be traced with all
of them abstract. As few as possible are given with their numbers then, and are constants; layers
that are alike are treated alike.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax

T = TypeVar("T")

LOOKS = (TypeError, IndexError)
"""What JAX raises where a number is asked for that is not known: `jax.errors.JAXTypeError` and
`JAXIndexError`, and a plain `TypeError` for a shape."""

Places = frozenset[int]


def traced(run: Callable[[Places], T], leaves: Sequence[tuple[str, Any]]) -> tuple[T, Places]:
    """What ``run`` gives, and the places of the leaves that it was given with their numbers.

    Whatever ``run`` raises with all of them known is not about parameters, and is raised.
    """
    try:
        return run(frozenset()), frozenset()
    except LOOKS:
        groups = _concretize_alike(leaves)
        if not groups or not _works(run, frozenset().union(*groups)):
            raise
    places = frozenset[int]().union(*_least(run, frozenset(), groups, is_new=False))
    return run(places), places


def _concretize_alike(leaves: Sequence[tuple[str, Any]]) -> list[Places]:
    """The leaves that have numbers, together where their paths differ in numbers alone."""
    groups: dict[str, set[int]] = {}
    for place, (path, leaf) in enumerate(leaves):
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            groups.setdefault(re.sub(r"\d+", "0", path), set()).add(place)
    return [frozenset(group) for group in groups.values()]


def _least(
    run: Callable[[Places], object], known: Places, groups: Sequence[Places], *, is_new: bool
) -> list[Places]:
    """So few of the groups that ``run`` works with them and what is known.

    By halves (QuickXplain; Junker, 2004); ``is_new`` says that ``known`` has not been tried.
    """
    if is_new and _works(run, known):
        return []
    if len(groups) == 1:
        return list(groups)
    first, second = groups[: len(groups) // 2], groups[len(groups) // 2 :]
    late = _least(run, known.union(*first), second, is_new=True)
    early = _least(run, known.union(*late), first, is_new=bool(late))
    return early + late


def _works(run: Callable[[Places], object], known: Places) -> bool:
    try:
        run(known)
    except LOOKS:
        return False
    return True
