"""A failing program in its smallest form that fails in the same way, as hypothesis finds it."""

from collections.abc import Callable
from dataclasses import replace

import jax
from hypothesis import HealthCheck, find, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample
from jax import export

from tests.fuzz.judge import Outcome, judge
from tests.fuzz.program import Program, Spec, live, renamed, types

Judge = Callable[[Program], Outcome]

SETTINGS = settings(
    max_examples=250, database=None, deadline=None, suppress_health_check=list(HealthCheck)
)
PLAIN = {"x64": False, "opset": 23, "strict": False, "closure": False}


def shrink(program: Program, outcome: Outcome, judged: Judge = judge) -> Program:
    """One output, inputs in the places of other results, and plain settings: as far as the outcome
    is of the same kind and cause."""
    known = _types(program)
    made = [name for step in program.steps for name in step.names]
    places = [name for name in made if _is_input(known[name])]

    def smaller(choice: tuple[str, list[bool], list[bool]]) -> Program:
        output, kept, told = choice
        table = {n: f"x{n[1:]}0" for n, is_kept in zip(places, kept, strict=True) if not is_kept}
        inputs = {**program.inputs, **{new: known[old] for old, new in table.items()}}
        steps = renamed(program.steps, table)
        plain = {n: v for (n, v), own in zip(PLAIN.items(), told, strict=True) if not own}
        return live(replace(program, inputs=inputs, steps=steps, outputs=(output,), **plain))

    def fails(choice: tuple[str, list[bool], list[bool]]) -> bool:
        found = judged(smaller(choice))
        return (found.kind, found.cause) == (outcome.kind, outcome.cause)

    truths = [st.lists(st.booleans(), min_size=n, max_size=n) for n in (len(places), len(PLAIN))]
    try:
        return smaller(find(st.tuples(st.sampled_from(made), *truths), fails, settings=SETTINGS))
    except NoSuchExample:
        return program


def _is_input(spec: Spec) -> bool:
    return all(isinstance(d, int) or d.isidentifier() for d in spec.shape)


def _types(program: Program) -> dict[str, Spec]:
    """Types of inputs, weights and results of steps."""
    scope = export.SymbolicScope()
    tables = (*program.inputs.items(), *program.weights.items())
    known = {name: spec.struct(scope) for name, spec in tables}
    with jax.enable_x64(program.x64):
        for step in program.steps:
            known |= dict(zip(step.names, types(step, known), strict=True))
    return {n: Spec.of(s) for n, s in known.items()}
