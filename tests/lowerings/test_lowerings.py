"""Every lowering rule gives JAX's numbers, whatever its operands are and however they were made."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules

import pytest

from converter import lower
from converter.ir.op import Op
from converter.lower.lowerings import BUILTIN_RULES
from tests.lowerings import composites, control, elementwise, indexing, moving, reducing, sizes
from tests.lowerings.decisions import Recorder
from tests.lowerings.prove import LoweringCase, Trial, opsets_of

TABLES = (elementwise, moving, reducing, indexing, control, composites)
CASES: Mapping[Op, Sequence[LoweringCase]] = {
    op: cases for table in TABLES for op, cases in table.CASES.items()
}
RULES = [(op, since) for op, rules in BUILTIN_RULES.items() for since in sorted(rules)]

WATCHED = 24
"""Programs of each case whose decisions are recorded, which takes three times as long."""

EXEMPT: Mapping[str, str] = {
    "in self.reserved": "names that inputs have already",
    "if domain:": "operators that rules from outside write",
    "self.shared.lines": "an option",
    "self.shared.refused": "reports of what cannot be written",
    "except UnsupportedError": "any other error is a mistake of ours",
    "len(results) != len(node.outputs)": "a mistake in a rule",
    'startswith("float8")': "no kernel computes in eight bits: tests/converter has conversions",
    "v.name or": "bodies of loops have no names",
    "value.dtype is not None": "a body's output that no rule has typed",
    "may_be_empty": "sizes that may be zero along two axes, which JAX asks constraints for",
    "groups == b.out.shape[1]": "ONNX Runtime has no kernel for GroupNormalization",
    "dims.is_static(width)": "a width of heads that is a name",
    "b.takes(name": "by the target",
    "name not in self.origins": "an error of the user's",
    "origin.": "axes of inputs that are sums and multiples of names: tests/converter/dynamic",
    "while left": "an exponent of zero has a rule of its own",
    "not numbers": "JAX reinterprets no Booleans",
    "DIGAMMA_OF_ZERO": "by the version of JAX",
    "cumlogsumexp": "JAX has none of integers; a graph from outside may",
}
"""Parts of decisions that no program of one operation decides, and why."""

WANTING = (
    *("builder.py … dims.same(before[i], dim)", "builder.py … target.count(-1) == 1"),
    *('builder.py … self.op("Unsqueeze"', 'builder.py … self.op("Squeeze"'),
    *("indexing.py … d in window", "indexing.py … producer is not None"),
    *("indexing.py … batch_axes != (0,)", "indexing.py … len(shared) or None"),
    *("reduce.py … producer is None", "size_arithmetic.py … is_static(dim)"),
)
"""Decisions of which one side still wants a program."""

tried = pytest.mark.parametrize(
    ("op", "since"), RULES, ids=[f"{op} from {since}" for op, since in RULES]
)

DRAWS = 12
"""Programs that are drawn by default until one has the rule."""

SEEDS = range(1000, 1040)
"""Those of the full tier."""

OTHERS = ("lowerings", "coefficients")
"""Modules without rules: the registry, whose decisions are about refusals, and numbers."""

MODULES = [
    import_module(f"{lower.__name__}.{found.name}")
    for found in iter_modules(lower.__path__)
    if found.name not in OTHERS
]


def test_every_operation_has_programs() -> None:
    missing = sorted(op.name for op in BUILTIN_RULES.keys() - CASES.keys())
    assert not missing, f"operations with a lowering rule and without programs: {missing}"


@tried
def test_rule_gives_the_numbers_of_jax(op: Op, since: int) -> None:
    """A program or more that the rule lowers, of every way to draw some."""
    if not opsets_of(op, since):
        pytest.skip("the installed ONNX Runtime loads no such opset")
    trial = Trial(op, since)
    for case in CASES[op]:
        found = 0
        for seed in range(DRAWS):
            found += trial.is_right(case, seed)
            if found == case.programs:
                break
        assert found, "no draw reaches this rule: it needs others"


@pytest.mark.full
@tried
def test_rule_gives_the_numbers_of_jax_in_many_programs(op: Op, since: int) -> None:
    """At every opset at which the rule is the operation's newest."""
    if not opsets_of(op, since):
        pytest.skip("the installed ONNX Runtime loads no such opset")
    trial = Trial(op, since)
    wrong = [text for case in CASES[op] for text in trial.failures(case, SEEDS)]
    assert not wrong, f"{len(wrong)} programs are wrong, the shortest is\n{min(wrong, key=len)}"
    assert (op, since) in trial.reached, "no draw reaches this rule: it needs others"


def test_sizes_are_those_of_integers() -> None:
    wrong = list(filter(None, map(sizes.complaint, range(2000))))
    assert not wrong, f"{len(wrong)} are wrong: {min(wrong, key=len)}"


@pytest.mark.full
def test_every_decision_falls_both_ways() -> None:
    """Of the rules and of what they write with, but for what no program decides."""
    recorder = Recorder(MODULES)
    recorder.watch(lambda: [*map(sizes.complaint, range(2000))])
    for op, since in RULES:
        if opsets_of(op, since):
            trial = Trial(op, since, recorder.watch)
            for case in CASES[op]:
                trial.failures(case, SEEDS[:WATCHED])
    left = [key.split(" … ") for key in (*EXEMPT, *WANTING)]
    missing = [
        text
        for text in recorder.missing()
        if not any(all(part in text for part in parts) for parts in left)
    ]
    assert not missing, "sides of decisions that no draw takes:\n" + "\n".join(missing)
