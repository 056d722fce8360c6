"""Rules keep the numbers of programs of `tests.forms`, wherever they apply."""

from collections.abc import Iterator
from dataclasses import replace
from random import Random

import pytest

from tests.forms.draw import LIMITS
from tests.rules.formed import Record, formed, look
from tests.rules.prove import Case, Sweep
from tests.rules.test_rules import CASES, step_of

VARIANTS = (
    "legalize.bounds.bounds_rules strict gather",
    "layout.convolution.emit_convolution by patches",
    "layout.pooling.pooling_rules sum strict",
    "fuse.attention.shifts.shift_recogniser strict",
    "legalize.dtype_fallback.dtype_fallback_rules openvino max",
)
"""Cases in which a rule has other settings than in the first case of the same rule."""


def sweeps() -> Iterator[tuple[str, tuple[Sweep, Case]]]:
    """Yield each rule that is swept over a graph, with its tolerances, by name."""
    groups: dict[str, list[str]] = {}
    for key, (name, case) in CASES.items():
        if isinstance(case.apply or step_of(name), Sweep):
            groups.setdefault(name, []).append(key)
    for name, keys in groups.items():
        cases = [CASES[key][1] for key in keys]
        joint = replace(
            cases[0],
            units=max(case.units for case in cases),
            zeros=any(case.zeros for case in cases),
        )
        for key in (keys[0], *(key for key in VARIANTS if key in keys)):
            step = CASES[key][1].apply or step_of(name)
            assert isinstance(step, Sweep)
            yield name if key == keys[0] else key, (step, joint)


full = pytest.mark.full
CASES_OF_FORMS = dict(sweeps())
CHUNK = 4
"""The number of programs of a test."""


def compare(seed: int) -> Record:
    """Compare the numbers of a few programs wherever a rule applies."""
    record = Record()
    for index in range(CHUNK):
        look(formed(Random(f"{seed}.{index}"), LIMITS), CASES_OF_FORMS, record)
    return record


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(i, marks=full) for i in range(2, 100))])
def test_rules_keep_numbers_of_forms(seed: int) -> None:
    assert not compare(seed).complaints
