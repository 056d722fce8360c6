"""JAX's own uses of its primitives: each is right, or refused for a reason that is listed."""

from __future__ import annotations

import pytest

from tests.converter.harness.outcome import outcome
from tests.converter.harness.refused import REFUSED
from tests.converter.harness.table import sample, whole

try:
    SAMPLE = sample(whole(), 12)
except ImportError as error:
    pytest.skip(f"JAX's table of uses of primitives: {error}", allow_module_level=True)

GROUPS = sorted({harness.group_name for harness in SAMPLE.values()})


def test_the_sample_is_of_the_whole_table():
    assert len(GROUPS) > 120
    assert len(SAMPLE) > 850
    assert set(REFUSED) <= set(GROUPS)


@pytest.mark.hunt
@pytest.mark.parametrize("group", GROUPS)
def test_group(group):
    found = {n: outcome(h) for n, h in SAMPLE.items() if h.group_name == group}
    bad = {n: o for n, o in found.items() if o.kind in ("wrong", "broken")}
    assert not bad, bad
    refused = {n: o for n, o in found.items() if o.kind == "refused"}
    assert bool(refused) == (group in REFUSED), refused or "nothing is refused any more"
