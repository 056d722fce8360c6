"""The judge finds what is planted into a program of each kind, and does not blame what is right.

`benchmarks/judge.py` does the same with all programs.
"""

import pytest

from tests.judges.planted import planted
from tests.programs.table import PROGRAMS
from tests.tiers import default_rows

TRIED = (
    *("control cond", "indexing reflect", "public nn.silu", "reduce stable"),
    *("window average of what is not padding", "decompositions contracted"),
    "complex numbers rsqrt",
)
SLOW = ("elementwise steps", "elementwise formulas", "found sine of bfloat16")
"""Programs that take seconds each: of many operators, and of bfloat16."""


@pytest.mark.parametrize("name", default_rows(TRIED + SLOW, *TRIED))
def test_planted_faults_are_found(name):
    faults = [*planted(name, PROGRAMS[name])]
    assert sum(fault.seen for fault in faults) >= 4
    assert [fault for fault in faults if fault.is_misjudged] == []
