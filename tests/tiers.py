"""Which tests belong to the default tier, and what `.ci/run` takes from the full one.

A test without a mark is a default test, one with `@pytest.mark.full` is not. Of a table or a cross
product, `@pytest.mark.each("form", "dtype.kind")` leaves in the default tier the cases that have
between them every value of each of these arguments, or of their attributes, and marks the others
`full`. Without arguments it leaves the first case alone. Rows that are marked `full` stay so. Of a
table of names `default_rows` leaves some.

`--draw SEED/COUNT/MINUTES` takes so many tests, which follow from the seed, and starts none after
so many minutes. Of a cross product of three arguments and more it has every pair of values.
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
"""What a case has for each argument."""

EARLY = 8
"""A drawn run starts with one in so many of the cases of each test, and then takes the others."""


def values(item: pytest.Item, names: Iterable[str]) -> Values:
    """What a case has for arguments or their attributes; objects are told apart by identity."""
    arguments = SimpleNamespace(**item.callspec.params)
    return {name: _key(attrgetter(name)(arguments)) for name in names}


def _key(value: Any) -> Hashable:
    if isinstance(value, tuple):
        return repr(value)  # there may be lists in it
    return value if isinstance(value, str | int | float | None) else id(value)


def covering(cases: Sequence[Values], strength: int) -> list[int]:
    """Choose cases that have between them every combination of so many values that any case has.

    Those that bring most are taken first, so that a cross product is crossed along its diagonal.
    """
    parts = [set(combinations(sorted(case.items()), strength)) for case in cases]
    covered: set[tuple[tuple[str, Hashable], ...]] = set()
    chosen = []
    for brought in range(max(map(len, parts), default=0), 0, -1):
        for index, part in enumerate(parts):
            if len(part - covered) >= brought:
                chosen.append(index)
                covered |= part
    return chosen


def groups(items: Iterable[pytest.Item]) -> list[list[pytest.Item]]:
    """The cases of each test."""
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in items:
        cases[item.nodeid.partition("[")[0]].append(item)
    return list(cases.values())


def mark_full(items: Iterable[pytest.Item]) -> None:
    """Mark the cases that `each` does not leave in the default tier."""
    for cases in groups(items):
        if mark := cases[0].get_closest_marker("each"):
            rest = [item for item in cases if not item.get_closest_marker("full")]
            chosen = covering([values(item, mark.args) for item in rest], min(1, len(mark.args)))
            for item in set(rest) - {rest[i] for i in chosen}:
                item.add_marker("full")


def default_rows(rows: Iterable[str], *names: str) -> list[ParameterSet]:
    """Return the rows of a table for `parametrize`. Those that are not named are marked `full`."""
    rows = list(rows)
    assert {*names} <= {*rows}, f"rows that are not in the table: {sorted({*names} - {*rows})}"
    return [pytest.param(row, marks=() if row in names else pytest.mark.full) for row in rows]


def thinned(cases: list[pytest.Item]) -> list[pytest.Item]:
    """The cases of a test; of three arguments and more those that have every pair of values."""
    names = list(cases[0].callspec.params) if hasattr(cases[0], "callspec") else []
    if len(names) < 3:
        return cases
    return [cases[i] for i in covering([values(item, names) for item in cases], 2)]


def drawn(items: Iterable[pytest.Item], seed: str) -> list[pytest.Item]:
    """Tests in an order that follows from a seed: a share of each test's cases first."""
    rng = random.Random(seed)
    early, late = (
        defaultdict[str, list[pytest.Item]](list),
        defaultdict[str, list[pytest.Item]](list),
    )
    for cases in groups(items):
        rng.shuffle(cases)
        cases = thinned(cases)
        some = -(-len(cases) // EARLY)
        module = cases[0].nodeid.partition("::")[0]
        early[module] += cases[:some]
        late[module] += cases[some:]
    order = []
    for part in (early, late):
        modules = sorted(part)
        rng.shuffle(modules)
        order += [item for module in modules for item in part[module]]
    return order


class Deadline:
    """Skips the tests that come after so many minutes; the summary counts them."""

    def __init__(self, minutes: float) -> None:
        self.minutes = minutes
        self.end = time.monotonic() + 60 * minutes

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        if time.monotonic() > self.end:
            pytest.skip(f"not drawn: the {self.minutes:g} minutes are over")
