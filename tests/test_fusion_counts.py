"""No conversion in the tables of the tests gains or loses a fusion or the reason of a near miss
without a change of `fusion_counts.json`."""

import json

import jax
import pytest

from tests.fusion_counts import count, differences, programs, read

VERSION, WRITTEN = read()
PROGRAMS = programs()
NAMES = [name for name in PROGRAMS if name in WRITTEN]

STRIDE = 90
"""The default tests compare one program in STRIDE, the full tier all of them."""

CHUNK = 100
"""Number of programs in one test of the full tier."""

written = pytest.mark.skipif(
    jax.__version__ != VERSION, reason=f"the file of counts was written with jax {VERSION}"
)
ADVICE = "if the change is intended: python -m tests.fusion_counts --write"


def assert_same(names: list[str]) -> None:
    """Assert that these programs have the counts of the file."""
    changes = [
        sentence
        for name in names
        for sentence in differences(name, WRITTEN[name], count(PROGRAMS[name]))
    ]
    assert not changes, "\n".join([*changes, ADVICE])


@written
def test_a_sample_of_programs_has_the_counts_of_the_file():
    assert_same(NAMES[::STRIDE])


@written
@pytest.mark.full
@pytest.mark.parametrize("start", range(0, len(NAMES), CHUNK))
def test_all_programs_have_the_counts_of_the_file(start: int):
    assert_same(NAMES[start : start + CHUNK])


@written
def test_every_program_has_a_line():
    assert not PROGRAMS.keys() - WRITTEN.keys(), ADVICE


def test_a_lost_fusion_is_a_difference():
    fused = {"any": {"operators": {"Gelu": 1}, "missed": {"Gelu: reason": 2}}}
    lost = {"18": {"operators": {"Erf": 1}}, "23": json.loads(json.dumps(fused["any"]))}
    assert differences("x", fused, fused) == []
    assert differences("x", fused, lost) == [
        "x at 18: Erf: 0 -> 1",
        "x at 18: Gelu: 1 -> 0",
        "x at 18: Gelu: reason: 2 -> 0",
    ]
    assert differences("x", {}, {"any": {"error": "UnsupportedError"}}) == [
        f"x at {opset}: None -> UnsupportedError" for opset in (18, 23)
    ]
