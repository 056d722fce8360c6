"""Shrink a failing program to a small one that fails in the same way, with hypothesis."""

from collections.abc import Callable
from dataclasses import replace

import jax
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from jax import export

from tests.forms.program import Program, Spec, live, renamed, types
from tests.fuzz.judge import Outcome, judge

Judge = Callable[[Program], Outcome]

SETTINGS = settings(
    max_examples=250, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
PLAIN = {"x64": False, "opset": 23, "strict": False, "closure": False}


def shrink(program: Program, outcome: Outcome, judged: Judge = judge) -> Program:
    """Return a smaller program with the same kind and cause of outcome, or the program itself if
    there is none.

    The smaller program has one output, inputs in place of results of steps, and default settings
    where possible.
    """
    known = _types(program)
    results = [name for step in program.steps for name in step.names]
    replaceable = [name for name in results if _is_input(known[name])]

    def smaller(choice: tuple[str, list[bool], list[bool]]) -> Program:
        output, keep_results, keep_settings = choice
        table = {
            n: f"x{n[1:]}0"
            for n, is_kept in zip(replaceable, keep_results, strict=True)
            if not is_kept
        }
        inputs = {**program.inputs, **{new: known[old] for old, new in table.items()}}
        steps = renamed(program.steps, table)
        plain = {
            n: v
            for (n, v), is_kept in zip(PLAIN.items(), keep_settings, strict=True)
            if not is_kept
        }
        return live(replace(program, inputs=inputs, steps=steps, outputs=(output,), **plain))

    def fails(choice: tuple[str, list[bool], list[bool]]) -> bool:
        judgement = judged(smaller(choice))
        return (judgement.kind, judgement.cause) == (outcome.kind, outcome.cause)

    truths = [
        st.lists(st.booleans(), min_size=n, max_size=n) for n in (len(replaceable), len(PLAIN))
    ]
    try:
        return smaller(find(st.tuples(st.sampled_from(results), *truths), fails, settings=SETTINGS))
    except NoSuchExample:
        return program


def _is_input(spec: Spec) -> bool:
    """Return whether a value can be an input: its named dimensions are names, not expressions."""
    return all(isinstance(d, int) or d.isidentifier() for d in spec.shape)


def _types(program: Program) -> dict[str, Spec]:
    """Return the types of inputs, weights and results of steps."""
    scope = export.SymbolicScope()
    tables = (*program.inputs.items(), *program.weights.items())
    known = {name: spec.struct(scope) for name, spec in tables}
    with jax.enable_x64(program.x64):
        for step in program.steps:
            known |= dict(zip(step.names, types(step, known), strict=True))
    return {n: Spec.of(s) for n, s in known.items()}
