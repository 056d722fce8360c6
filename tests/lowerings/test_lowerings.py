"""Every lowering rule gives JAX's numbers, whatever its operands are and however they were made."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path

import pytest

from converter import lower
from converter.ir.op import Op
from converter.lower.lowerings import OWN_RULES
from tests.lowerings import composites, control, elementwise, indexing, moving, reducing
from tests.lowerings.decisions import Recorder
from tests.lowerings.prove import LoweringCase, Reached, call, is_right, opsets_of
from tests.rules.prove import search

TABLES = (elementwise, moving, reducing, indexing, control, composites)
CASES: Mapping[Op, Sequence[LoweringCase]] = {
    op: cases for table in TABLES for op, cases in table.CASES.items()
}
RULES = [(op, since) for op, rules in OWN_RULES.items() for since in sorted(rules)]
NAMES = [f"{op} from {since}" for op, since in RULES]
ROUNDS = 24
"""Times eight programs of each case in the full tier."""

tried = pytest.mark.parametrize(("op", "since"), RULES, ids=NAMES)


def test_every_operation_has_programs() -> None:
    missing = sorted(op.name for op in OWN_RULES.keys() - CASES.keys())
    assert not missing, f"operations with a lowering rule and without programs: {missing}"


@tried
def test_rule_gives_the_numbers_of_jax(op: Op, since: int) -> None:
    """One program that the rule lowers, of each way to draw some."""
    if not opsets_of(op, since):
        pytest.skip("the installed ONNX Runtime loads no such opset")
    for case in CASES[op]:
        check = partial(is_right, case, op, since, call, set())
        assert search(check, 0, 3, 1, size=1), "no draw reaches this rule: it needs others"
