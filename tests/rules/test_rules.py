"""Every rule keeps the numbers of the graphs in which it applies, and there are such graphs."""

from functools import partial
from typing import Any

import pytest

from converter.ir import ops
from converter.ir.op import Op
from tests.rules import canonical
from tests.rules.prove import Case, Step, keeps_numbers, search, swept
from tests.rules.registered import registered

RULES = registered()
ROUNDS, ENOUGH = 10, 5


def operation(name: str) -> Op | None:
    """What a rule of a table is about."""
    _, _, op = name.partition("[")
    return ops.named(op.partition("]")[0]) if op else None


def case_of(name: str) -> Case:
    return canonical.case_of(operation(name))


def step_of(name: str, value: Any) -> Step:
    return swept({operation(name): value})


NAMES = [n for n in RULES if n.startswith("canonicalize.") and "[" in n]


@pytest.mark.parametrize("name", NAMES)
def test_rule_keeps_numbers(name: str) -> None:
    case = case_of(name)
    check = partial(keeps_numbers, case, case.apply or step_of(name, RULES[name]))
    assert search(check, 0, ROUNDS, ENOUGH), "no draw reaches this rule: it needs one that does"
