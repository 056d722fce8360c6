"""Every rule keeps the numbers of the graphs in which it applies, and there are such graphs."""

from functools import partial

import pytest

from converter.fuse.match import Recogniser
from converter.ir import ops
from converter.ir.op import Op
from tests.rules import among_ones, arranged, canonical, laid_out, recognised
from tests.rules.prove import Case, Check, Step, by_recogniser, keeps_numbers, search, swept
from tests.rules.registered import registered
from tests.since import needs

RULES = registered()
ROUNDS, SMALL = 40, 4
"""Rounds of the default tier at most, and the programs of each. The first program of a round is the
simplest, so that a smaller round would be of little else."""

ENOUGH = {"canonicalize": 2, "legalize": 2, "weight_folding": 2}
"""How often a rule has to apply by its room, else once."""


TABLES = (among_ones.CASES, arranged.CASES, laid_out.CASES, recognised.CASES)
TOGETHER = ("layout.channel_forms.BEFORE_REORDERING",)
"""Tables that have one rule for many operations: their programs draw the operation."""


def operation(name: str) -> Op:
    """What a rule of a table is about."""
    return ops.op_by_name(name.partition("[")[2].partition("]")[0])


def cases_of(name: str) -> dict[str, Case]:
    """By name; of a function that gives several rules there may be several."""
    if name.startswith("canonicalize.") and "[" in name:
        return {name: canonical.case_of(operation(name))}
    if isinstance(RULES[name], tuple):
        return {name: recognised.spelled(*RULES[name])}
    short = name.removeprefix("targets.onnxruntime.quirks.")
    if short.startswith("layout.broadcast.RULES"):
        return {name: canonical.case_of(operation(name))}
    return {
        name.replace(short, key): case
        for table in TABLES
        for key, case in table.items()
        if key == short or key.startswith(f"{short} ")
    }


def step_of(name: str) -> Step:
    value = RULES[name]
    if isinstance(value, Recogniser):
        return by_recogniser(value)
    return swept({operation(name): value})


CASES = {key: (name, case) for name in RULES for key, case in cases_of(name).items()}
CASES |= {
    key: (name, case)
    for table in TABLES
    for key, case in table.items()
    for name in TOGETHER
    if key.startswith(f"{name} ")
}
ROWS = [pytest.param(key, marks=needs(case.since)) for key, (_, case) in CASES.items()]


def test_every_rule_has_programs() -> None:
    proved = {name for name, _ in CASES.values()}
    missing = {name for name in RULES.keys() - proved if not name.startswith(TOGETHER)}
    assert not missing, f"rules that nothing proves: {sorted(missing)}"


def check_of(key: str) -> Check:
    name, case = CASES[key]
    return partial(keeps_numbers, case, case.apply or step_of(name))


@pytest.mark.parametrize("key", ROWS)
def test_rule_keeps_numbers(key: str) -> None:
    """In few programs, which find what is wrong always or often; the full tier has forty, which
    find what is wrong at some shapes, dtypes or numbers. Where a row says that few of its programs
    are dangerous, it has its own number."""
    enough = CASES[key][1].enough or ENOUGH.get(key.partition(".")[0], 1)
    found = search(check_of(key), 0, ROUNDS, enough, SMALL)
    assert found, "no draw reaches this rule: it needs some"


@pytest.mark.full
@pytest.mark.parametrize("key", ROWS)
def test_rule_keeps_numbers_of_many_programs(key: str) -> None:
    """Other programs than by default, ten times as many."""
    assert search(check_of(key), ROUNDS, 5 * ROUNDS, 40)
