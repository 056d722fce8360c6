"""The judge of files on planted faults: it finds them, and accepts files without a fault.

There is a program of each kind; `benchmarks/judge.py` measures all programs.
"""

import pytest

from tests.judges.planted import planted
from tests.programs.table import PROGRAMS
from tests.tiers import default_rows

DEFAULT = (
    *("control cond", "indexing reflect", "public nn.silu", "reduce stable"),
    *("window average of what is not padding", "decompositions contracted"),
    "complex numbers rsqrt",
)
SLOW = ("elementwise steps", "elementwise formulas", "found sine of bfloat16")
"""Programs that take seconds, because they have many operators or compute in bfloat16."""


@pytest.mark.parametrize("name", default_rows(DEFAULT + SLOW, *DEFAULT))
def test_planted_faults_are_found(name):
    faults = [*planted(name, PROGRAMS[name])]
    assert sum(fault.seen for fault in faults) >= 4
    assert [fault for fault in faults if fault.is_misjudged] == []
