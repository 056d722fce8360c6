"""A failing program in its smallest form that fails in the same way."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import jax
from jax import export

from tests.fuzz.errors import IN_JAX
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.program import NAME, Program, Spec, changed, live, renamed, types, walk

Judge = Callable[[Program], Outcome]


def shrink(program: Program, outcome: Outcome, judged: Judge = judge, budget: int = 250) -> Program:
    """Make the program smaller as long as the outcome is of the same kind and cause."""
    best, tried, candidates = program, {repr(program)}, _candidates(program)
    while budget > 0 and (candidate := next(candidates, None)) is not None:
        if repr(candidate) in tried or not _types(candidate):
            continue
        tried.add(repr(candidate))
        budget -= 1
        found = judged(candidate)
        if (found.kind, found.cause) == (outcome.kind, outcome.cause):
            best, candidates = candidate, _candidates(candidate)
    return best


def _candidates(program: Program) -> Iterator[Program]:
    """Smaller programs, the much smaller ones first."""
    if len(program.outputs) > 1:
        yield from (live(replace(program, outputs=(output,))) for output in program.outputs)
    if (known := _types(program)) is not None:
        yield from _shorter(program, known)
        yield from _plainer(program)
        yield from _smaller(program)


def _shorter(program: Program, known: dict[str, Spec]) -> Iterator[Program]:
    """A result of a step becomes another value of its type, or an input."""
    for step in reversed(program.steps):
        for name in step.names:
            if (spec := known.get(name)) is None:
                continue
            same = [n for n, s in known.items() if s == spec and _number(n) < _number(name)]
            for other in same[:3]:
                yield _replaced(program, {name: other})
            if all(isinstance(d, int) or d.isidentifier() for d in spec.shape):
                new = f"x{_number(name)}0"
                yield _replaced(_given(program, new, spec), {name: new})
    for step in program.steps:
        for name in step.names:
            if name not in program.outputs and name in known:
                yield live(replace(program, outputs=(name,)))


def _given(program: Program, name: str, spec: Spec) -> Program:
    return replace(program, inputs={**program.inputs, name: spec})


def _replaced(program: Program, table: dict[str, str]) -> Program:
    steps = renamed(program.steps, table)
    outputs = tuple(dict.fromkeys(table.get(n, n) for n in program.outputs))
    return live(replace(program, steps=steps, outputs=outputs))


def _plainer(program: Program) -> Iterator[Program]:
    for plain in ({"x64": False}, {"opset": 23}, {"strict": False}, {"closure": False}):
        yield replace(program, **plain)
    for name, spec in program.weights.items():
        rest = {n: s for n, s in program.weights.items() if n != name}
        moved = f"x{name[1:]}"
        steps = renamed(program.steps, {name: moved})
        yield replace(_given(program, moved, spec), weights=rest, steps=steps)
    yield replace(
        program, inputs=_resized(program.inputs, lambda d: 3 if isinstance(d, str) else d)
    )
    used = {n for s in walk(program.steps) for n in NAME.findall(s.text)}
    unread = [n for n in program.inputs if n not in used and n not in program.outputs]
    if unread and len(program.inputs) > 1:
        inputs = {n: s for n, s in program.inputs.items() if n != unread[0]}
        yield replace(program, inputs=inputs)


def _resized(table: Mapping[str, Spec], size: Callable[[Any], Any]) -> dict[str, Spec]:
    return {n: Spec(tuple(map(size, s.shape)), s.dtype) for n, s in table.items()}


def _smaller(program: Program) -> Iterator[Program]:
    """A size becomes another wherever it is written; or in one axis of one input."""
    tables = (program.inputs, program.weights)
    sizes = {d for t in tables for s in t.values() for d in s.shape if isinstance(d, int)}
    for size in sorted(sizes, reverse=True):
        for less in range(min(size - 1, 3), 0, -1):
            pattern, less_ = rf"(?<![\w.])(?<!e-){size}(?![\w.])", str(less)
            steps = changed(program.steps, lambda t, p=pattern, n=less_: re.sub(p, n, t))
            made = [_resized(t, lambda d, n=less, old=size: n if d == old else d) for t in tables]
            yield replace(program, inputs=made[0], weights=made[1], steps=steps)
    for name, spec in program.inputs.items():
        for axis, size in enumerate(spec.shape):
            for less in (1, 2):
                if isinstance(size, int) and size > less:
                    shape = (*spec.shape[:axis], less, *spec.shape[axis + 1 :])
                    yield _given(program, name, Spec(shape, spec.dtype))


def _number(name: str) -> int:
    return int(name[1:])


def _types(program: Program) -> dict[str, Spec] | None:
    """Types of inputs, weights and results of steps; None if JAX refuses the program."""
    scope = export.SymbolicScope()
    known: dict[str, jax.ShapeDtypeStruct] = {}
    with jax.enable_x64(program.x64):
        try:
            for name, spec in (*program.inputs.items(), *program.weights.items()):
                known[name] = spec.struct(scope)
            for step in program.steps:
                known |= dict(zip(step.names, types(step, known), strict=True))
        except IN_JAX:  # a change too far
            return None
    return {n: Spec.of(s) for n, s in known.items()}
