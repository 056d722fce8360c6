"""Every graph rule applies to some drawn graphs, and keeps the numbers that JAX computes."""

from functools import partial

import pytest

from converter.fuse.match import Recogniser
from converter.ir import ops
from converter.ir.op import Op
from converter.legalize.deviations import deviations
from converter.targets import find_target
from tests.rules import among_ones, arranged, canonical, laid_out, recognised
from tests.rules.arranged import STRICT_DEVIATIONS
from tests.rules.prove import Case, Check, Step, Sweep, by_recogniser, keeps_numbers, search, swept
from tests.rules.registered import registered
from tests.since import needs

RULES = registered()
ROUNDS, SMALL = 40, 4
"""Largest number of rounds in the default tier, and programs of a round. The first program of a
round is the simplest one, so that smaller rounds would hold little else."""

ENOUGH = {"canonicalize": 2, "legalize": 2, "weight_folding": 2}
"""How often a rule must apply, by its package; once in other packages."""


TABLES = (among_ones.CASES, arranged.CASES, laid_out.CASES, recognised.CASES)
SHARED_RULES = ("layout.broadcast.RULES", "layout.channel_forms.BEFORE_REORDERING")
"""Tables with one rule for many operations. Their programs draw the operation."""


def operation_of(name: str) -> Op:
    """Return the operation of a rule's name, such as `table[add]`."""
    return ops.op_by_name(name.partition("[")[2].partition("]")[0])


def cases_of(name: str) -> dict[str, Case]:
    """Return the cases of a rule by name. A function that returns rules may have several cases."""
    if name.startswith("canonicalize.") and "[" in name:
        return {name: canonical.case_of(operation_of(name))}
    if isinstance(RULES[name], tuple):
        return {name: recognised.spelled(*RULES[name])}
    short_name = name.removeprefix("targets.onnxruntime.quirks.")
    return {
        name.replace(short_name, key): case
        for table in TABLES
        for key, case in table.items()
        if key == short_name or key.startswith(f"{short_name} ")
    }


def step_of(name: str) -> Step:
    """Return the step that applies a recogniser or a rule of a table."""
    value = RULES[name]
    if isinstance(value, Recogniser):
        return by_recogniser(value)
    op = operation_of(name)
    if any(d.exact_rule is value for d in deviations(find_target("onnxruntime")).values()):
        # The rule is for nodes that the deviation affects.
        return Sweep(lambda graph: {op: STRICT_DEVIATIONS.rules_of(graph)[op]})
    return swept({op: value})


CASES = {key: (name, case) for name in RULES for key, case in cases_of(name).items()}
CASES |= {
    key: (name, case)
    for table in TABLES
    for key, case in table.items()
    for name in SHARED_RULES
    if key.startswith(f"{name} ")
}
ROWS = [
    pytest.param(key, marks=needs(case.since))
    for key, (_, case) in CASES.items()
    if case.draw is not None
]


def test_every_rule_has_programs() -> None:
    tested = {name for name, _ in CASES.values()}
    missing = {name for name in RULES.keys() - tested if not name.startswith(SHARED_RULES)}
    assert not missing, f"rules without programs: {sorted(missing)}"


def check_of(key: str) -> Check:
    """Return the check of a case for `search`."""
    name, case = CASES[key]
    return partial(keeps_numbers, case, case.apply or step_of(name))


@pytest.mark.parametrize("key", ROWS)
def test_rule_keeps_numbers(key: str) -> None:
    """The rule applies to a few programs and keeps their numbers.

    These find faults that are frequent. Forty programs in the full tier find faults at some shapes,
    dtypes or numbers. A case with few critical programs sets its own number (`Case.enough`).
    """
    enough = CASES[key][1].enough or ENOUGH.get(key.partition(".")[0], 1)
    applied = search(check_of(key), 0, ROUNDS, enough, SMALL)
    assert applied, "no drawn program reaches this rule: add programs for it"


@pytest.mark.full
@pytest.mark.parametrize("key", ROWS)
def test_rule_keeps_numbers_of_many_programs(key: str) -> None:
    """The rule keeps the numbers of other programs than by default, ten times as many."""
    assert search(check_of(key), ROUNDS, 5 * ROUNDS, 40)
