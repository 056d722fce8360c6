"""JAX's harness of its primitives: each call agrees with JAX, or is refused for a listed reason."""

from fnmatch import fnmatch

import jax
import pytest

from tests.converter.harness.outcome import outcome
from tests.converter.harness.refused import REMAINING, WRONG, reason
from tests.converter.harness.table import sample, whole

try:
    TABLE = whole()
except ImportError as error:
    pytest.skip(f"JAX's table of uses of primitives: {error}", allow_module_level=True)

ALL_HARNESSES = sample(TABLE, len(TABLE))
SAMPLE = sample(TABLE, 12)
GROUPS = sorted({harness.group_name for harness in SAMPLE.values()})


def test_sample_covers_the_table():
    """The sample has most groups, and a harness for each pattern of `REMAINING`."""
    assert len(GROUPS) > 120
    assert len(SAMPLE) > 1000
    for pattern in REMAINING:
        assert any(fnmatch(name, pattern) for name in SAMPLE), pattern


@pytest.mark.full
@pytest.mark.parametrize("table", [SAMPLE, ALL_HARNESSES], ids=["sample", "all"])
@pytest.mark.parametrize("group", GROUPS)
def test_harnesses_of_a_group_are_right_or_listed(group, table):
    """Every harness of a group is right, except those that are listed in `refused.py`."""
    outcomes = {n: outcome(h) for n, h in table.items() if h.group_name == group}
    jax.clear_caches()
    for name, result in outcomes.items():
        listed = "wrong" if fnmatch(name, WRONG) else "refused"
        allowed = ("right", "strict") if reason(name) is None else (listed,)
        assert result.kind in allowed, f"{name}: {result}"
