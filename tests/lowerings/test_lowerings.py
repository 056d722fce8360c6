"""Every lowering rule matches JAX, for operands of all dtypes, sizes and sources."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules

import pytest

from converter import lower
from converter.ir.op import Op
from converter.lower.lowerings import BUILTIN_RULES
from tests.lowerings import composites, control, elementwise, indexing, moving, reducing, sizes
from tests.lowerings.decisions import Recorder, decisions_of
from tests.lowerings.prove import LoweringCase, Trial, opsets_of

TABLES = (elementwise, moving, reducing, indexing, control, composites)
CASES: Mapping[Op, Sequence[LoweringCase]] = {
    op: cases for table in TABLES for op, cases in table.CASES.items()
}
RULES = [(op, since) for op, rules in BUILTIN_RULES.items() for since in sorted(rules)]

WATCHED = 24
"""Programs of each case whose decisions are recorded. Recording takes three times as long."""

EXEMPT: Mapping[str, str] = {
    "in self.reserved": "names that inputs have already",
    "if domain:": "operators that rules from outside write",
    "self.shared.has_source_lines": "an option",
    "self.shared.errors": "reports of what cannot be written",
    "except UnsupportedError": "any other error is a mistake of ours",
    "len(results) != len(node.outputs)": "a mistake in a rule",
    'startswith("float8")': "no kernel computes in eight bits: tests/converter has conversions",
    "v.name or": "bodies of loops have no names",
    "value.dtype is not None": "a body's output that no rule has typed",
    "may_be_empty": "sizes that may be zero along two axes, which JAX asks constraints for",
    "groups == b.out.shape[1]": "ONNX Runtime has no kernel for GroupNormalization",
    "dims.is_static(width)": "a width of heads that is a name",
    "b.has_operator(name": "by the target",
    "name not in self.origins": "an error of the user's",
    "origin.": "axes of inputs that are sums and multiples of names: tests/converter/dynamic",
    "while remaining_exponent": "an exponent of zero has a rule of its own",
    "not are_numbers": "JAX reinterprets no Booleans",
    "DIGAMMA_OF_ZERO": "by the version of JAX",
    "cumlogsumexp": "JAX has none of integers; a graph from outside may",
}
"""Parts of decisions of which no program of one operation takes both sides, with the reasons."""

MISSING_PROGRAMS = (
    *("builder.py … dims.is_same_dim(before[i], dim)", "builder.py … target.count(-1) == 1"),
    *('builder.py … self.op("Unsqueeze"', 'builder.py … self.op("Squeeze"'),
    *("indexing.py … d in window", "indexing.py … batch_axes != (0,)"),
    *("indexing.py … len(shared) or None", "reduce.py … producer is None"),
    "size_arithmetic.py … is_static(dim)",
)
"""Decisions of which one side has no program yet."""

EXCEPTIONS = (*EXEMPT, *MISSING_PROGRAMS)


def _occurs_in(key: str, text: str) -> bool:
    """Return True if all parts of a key, which are separated by " … ", occur in a text."""
    return all(part in text for part in key.split(" … "))


for_each_rule = pytest.mark.parametrize(
    ("op", "since"), RULES, ids=[f"{op} from {since}" for op, since in RULES]
)

MAX_PROGRAMS = 12
"""Largest number of programs in the default tier until one uses the rule."""

SEEDS = range(1000, 1040)
"""Seeds of the programs in the full tier."""

WITHOUT_RULES = ("lowerings", "coefficients")
"""Modules without rules: the registry, whose decisions are about refusals, and coefficients."""

MODULES = [
    import_module(f"{lower.__name__}.{found.name}")
    for found in iter_modules(lower.__path__)
    if found.name not in WITHOUT_RULES
]


def test_every_operation_has_programs() -> None:
    missing = sorted(op.name for op in BUILTIN_RULES.keys() - CASES.keys())
    assert not missing, f"operations with a lowering rule and without programs: {missing}"


@for_each_rule
def test_rule_matches_jax(op: Op, since: int) -> None:
    """For each case of the operation, one or more programs use the rule and match JAX."""
    if not opsets_of(op, since):
        pytest.skip("the installed ONNX Runtime loads no such opset")
    trial = Trial(op, since)
    for case in CASES[op]:
        programs = 0
        for seed in range(MAX_PROGRAMS):
            programs += trial.is_right(case, seed)
            if programs == case.programs:
                break
        assert programs, "no drawn program reaches this rule: add programs for it"


@pytest.mark.full
@for_each_rule
def test_rule_matches_jax_in_many_programs(op: Op, since: int) -> None:
    """Many programs match JAX, at every opset at which the rule is the operation's newest."""
    if not opsets_of(op, since):
        pytest.skip("the installed ONNX Runtime loads no such opset")
    trial = Trial(op, since)
    wrong = [text for case in CASES[op] for text in trial.failures(case, SEEDS)]
    assert not wrong, f"{len(wrong)} programs are wrong, the shortest is\n{min(wrong, key=len)}"
    assert (op, since) in trial.reached, "no drawn program reaches this rule: add programs for it"


def test_size_arithmetic_matches_python() -> None:
    wrong = list(filter(None, map(sizes.complaint, range(2000))))
    assert not wrong, f"{len(wrong)} expressions are wrong: {min(wrong, key=len)}"


def test_exceptions_name_decisions() -> None:
    """Each key of `EXEMPT` and `MISSING_PROGRAMS` occurs in the source of a decision."""
    texts = [decision.text for module in MODULES for decision in decisions_of(module)]
    unused = [key for key in EXCEPTIONS if not any(_occurs_in(key, text) for text in texts)]
    assert not unused, f"no decision contains these texts: {unused}"


@pytest.mark.full
def test_both_sides_of_decisions_are_taken() -> None:
    """Programs take both sides of each decision that is not in `EXEMPT` or `MISSING_PROGRAMS`."""
    recorder = Recorder(MODULES)
    recorder.watch(lambda: [*map(sizes.complaint, range(2000))])
    for op, since in RULES:
        if opsets_of(op, since):
            trial = Trial(op, since, recorder.watch)
            for case in CASES[op]:
                trial.failures(case, SEEDS[:WATCHED])
    missing = [
        text for text in recorder.missing() if not any(_occurs_in(key, text) for key in EXCEPTIONS)
    ]
    assert not missing, "sides of decisions that no program takes:\n" + "\n".join(missing)
