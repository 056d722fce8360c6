"""JAX's own uses of its primitives: each is right, or refused for a reason that is listed."""

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

EVERY = sample(TABLE, len(TABLE))
SAMPLE = sample(TABLE, 12)
GROUPS = sorted({harness.group_name for harness in SAMPLE.values()})


def test_the_sample_is_of_the_whole_table():
    assert len(GROUPS) > 120
    assert len(SAMPLE) > 1000
    for row in REMAINING:
        assert any(fnmatch(name, row) for name in SAMPLE), row


@pytest.mark.full
@pytest.mark.parametrize("table", [SAMPLE, EVERY], ids=["sample", "all"])
@pytest.mark.parametrize("group", GROUPS)
def test_group(group, table):
    """All of a group is right but for what is listed."""
    found = {n: outcome(h) for n, h in table.items() if h.group_name == group}
    jax.clear_caches()
    for name, seen in found.items():
        listed = "wrong" if fnmatch(name, WRONG) else "refused"
        wanted = ("right", "strict") if reason(name) is None else (listed,)
        assert seen.kind in wanted, f"{name}: {seen}"
