"""Choose the tests of the default tier, and the tests of the full tier that `.ci/run` draws.

A test without a mark is in the default tier, one with `@pytest.mark.full` is not.
`@pytest.mark.each("form", "dtype.kind")` on a table or a cross product keeps in the default tier
cases that have between them every value of each of these arguments, or of their attributes. The
other cases are marked `full`. Without arguments only the first case stays. Rows that are marked
`full` stay so. `default_rows` keeps some rows of a table of names.

`--draw SEED/COUNT/MINUTES` runs COUNT tests that follow from SEED, and starts none after MINUTES.
Of a cross product of three or more arguments it draws from cases with every pair of values.
"""

import random
import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

import pytest
from _pytest.mark import ParameterSet

Values = dict[str, Hashable]
"""The value of a case for each argument."""

EARLY = 8
"""A drawn run starts with one in EARLY of the cases of each test, and then takes the others."""


def values(item: pytest.Item, names: Iterable[str]) -> Values:
    """Return a case's values of arguments or of their attributes. Objects are distinguished by
    identity."""
    arguments = SimpleNamespace(**item.callspec.params)
    return {name: _key(attrgetter(name)(arguments)) for name in names}


def _key(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return repr(value)  # there may be lists in it
    return value if isinstance(value, str | int | float | None) else id(value)


def covering(cases: Sequence[Values], strength: int) -> list[int]:
    """Return indices of cases that have between them every combination of `strength` values that
    occurs in any case.

    Cases that add most combinations are taken first, so that a cross product is covered along its
    diagonal.
    """
    parts = [set(combinations(sorted(case.items()), strength)) for case in cases]
    covered: set[tuple[tuple[str, Hashable], ...]] = set()
    chosen = []
    for added in range(max(map(len, parts), default=0), 0, -1):
        for index, part in enumerate(parts):
            if len(part - covered) >= added:
                chosen.append(index)
                covered |= part
    return chosen


def groups(items: Iterable[pytest.Item]) -> list[list[pytest.Item]]:
    """Return the cases of each test."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return list(cases.values())


def mark_full(items: Iterable[pytest.Item]) -> None:
    """Mark the cases as `full` that the mark `each` does not keep in the default tier."""
    for cases in groups(items):
        if mark := cases[0].get_closest_marker("each"):
            unmarked = [item for item in cases if not item.get_closest_marker("full")]
            chosen = covering(
                [values(item, mark.args) for item in unmarked], min(1, len(mark.args))
            )
            for item in set(unmarked) - {unmarked[i] for i in chosen}:
                item.add_marker("full")


def default_rows(rows: Iterable[str], *names: str) -> list[ParameterSet]:
    """Return the rows of a table for `parametrize`. Rows that are not named are marked `full`."""
    rows = list(rows)
    assert {*names} <= {*rows}, f"rows that are not in the table: {sorted({*names} - {*rows})}"
    return [pytest.param(row, marks=() if row in names else pytest.mark.full) for row in rows]


def thinned(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of a test. If the test has three or more arguments, return only cases that
    have every pair of values."""
    names = list(cases[0].callspec.params) if hasattr(cases[0], "callspec") else []
    if len(names) < 3:
        return cases
    return [cases[i] for i in covering([values(item, names) for item in cases], 2)]


def drawn(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """Return the tests in an order that follows from a seed. A share of each test's cases comes
    first."""
    rng = random.Random(seed)
    early, late = (
        defaultdict[str, list[pytest.Item]](list),
        defaultdict[str, list[pytest.Item]](list),
    )
    for cases in groups(items):
        rng.shuffle(cases)
        cases = thinned(cases)
        early_count = -(-len(cases) // EARLY)
        module = cases[0].nodeid.partition("::")[0]
        early[module] += cases[:early_count]
        late[module] += cases[early_count:]
    order = []
    for part in (early, late):
        modules = sorted(part)
        rng.shuffle(modules)
        order += [item for module in modules for item in part[module]]
    return order


class Deadline:
    """A plugin that skips the tests which would start after `minutes`. The summary counts them."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.end = time.monotonic() + 60 * minutes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.end:
            pytest.skip(f"not drawn: the {self.minutes:g} minutes are over")
