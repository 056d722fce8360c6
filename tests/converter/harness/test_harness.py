"""JAX's own uses of its primitives: each is right, or refused for a reason that is listed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import pytest

from tests.converter.harness.outcome import outcome
from tests.converter.harness.refused import OPEN, REFUSED
from tests.converter.harness.table import sample, whole

try:
    TABLE = whole()
except ImportError as error:
    pytest.skip(f"JAX's table of uses of primitives: {error}", allow_module_level=True)

EVERY = sample(TABLE, len(TABLE))
SAMPLE = sample(TABLE, 12)
GROUPS = sorted({harness.group_name for harness in SAMPLE.values()})


def test_the_sample_is_of_the_whole_table():
    assert len(GROUPS) > 120
    assert len(SAMPLE) > 850
    assert set(REFUSED) <= set(GROUPS)
    assert set(OPEN) <= set(SAMPLE)


def assert_right(group: str, table: Mapping[str, Any]) -> None:
    """Nothing of a group is wrong or broken, and what is refused is listed."""
    found = {n: outcome(h) for n, h in table.items() if h.group_name == group}
    jax.clear_caches()
    bad = {n: o for n, o in found.items() if o.kind in ("wrong", "broken")}
    assert set(bad) == {n for n in OPEN if n in found}, bad
    refused = {n: o for n, o in found.items() if o.kind == "refused"}
    assert bool(refused) == (group in REFUSED), refused or "nothing is refused any more"


def tier(group: str) -> Any:
    """Functions of many steps take minutes, and have tests of their own in `../expand`."""
    slow = {"eigh", "igamma", "igammac", "qr", "svd"}
    return pytest.param(group, marks=pytest.mark.hunt if group in slow else pytest.mark.full)


@pytest.mark.parametrize("group", [tier(group) for group in GROUPS])
def test_group(group):
    assert_right(group, SAMPLE)


@pytest.mark.hunt
@pytest.mark.parametrize("group", GROUPS)
def test_whole_group(group):
    assert_right(group, EVERY)
