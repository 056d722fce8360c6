"""The judge finds what is planted into a program of each kind, and does not blame what is right.

`benchmarks/judge.py` does the same with all programs.
"""

import pytest

from tests.judges.planted import planted
from tests.programs.table import PROGRAMS

TRIED = (
    *("control cond", "elementwise steps", "elementwise formulas", "indexing reflect"),
    *("public nn.silu", "reduce stable", "window average of what is not padding"),
    *("decompositions contracted", "complex numbers rsqrt", "found sine of bfloat16"),
)


@pytest.mark.parametrize("name", TRIED)
def test_planted_faults_are_found(name):
    faults = [*planted(name, PROGRAMS[name])]
    assert sum(fault.seen for fault in faults) >= 4
    assert [fault for fault in faults if fault.is_misjudged] == []
