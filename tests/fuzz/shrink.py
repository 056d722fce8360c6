"""A failing program in its smallest form that fails in the same way."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import jax
from jax import export

from tests.fuzz.errors import IN_JAX
from tests.fuzz.judge import Outcome, judge
from tests.fuzz.program import (
    NAME,
    NOTED,
    Body,
    Program,
    Spec,
    Step,
    changed,
    live,
    renamed,
    types,
    walk,
)

Judge = Callable[[Program], Outcome]


def shrink(program: Program, outcome: Outcome, judged: Judge = judge, budget: int = 250) -> Program:
    """Make the program smaller as long as the outcome is of the same kind and cause."""
    best, tried = program, {repr(program)}
    candidates = _candidates(best)
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
        for output in program.outputs:
            yield live(replace(program, outputs=(output,)))
    known = _types(program)
    if known is None:
        return
    yield from _shorter(program, known)
    yield from _inlined(program)
    yield from _plainer(program)
    yield from _smaller(program)


def _shorter(program: Program, known: dict[str, Spec]) -> Iterator[Program]:
    """A result of a step becomes another value of its type, or an input."""
    for step in reversed([*walk(program.steps)]):
        for name in step.names:
            spec = known.get(name)
            if spec is None:
                continue
            same = [n for n, s in known.items() if s == spec and _number(n) < _number(name)]
            for other in same[:3]:
                yield _replaced(program, {name: other})
            if all(isinstance(d, int) or d.isidentifier() for d in spec.shape):
                new = f"x{_number(name)}0"
                table = {**program.inputs, new: spec}
                yield _replaced(replace(program, inputs=table), {name: new})
    for step in program.steps:
        for name in step.names:
            if name not in program.outputs and name in known:
                yield live(replace(program, outputs=(name,)))


def _replaced(program: Program, table: dict[str, str]) -> Program:
    steps = renamed(program.steps, table)
    outputs = tuple(dict.fromkeys(table.get(n, n) for n in program.outputs))
    return live(replace(program, steps=steps, outputs=outputs))


def _inlined(program: Program) -> Iterator[Program]:
    """The steps of a nested function instead of the call, its arguments as inputs."""
    known = _types(program) or {}
    for index, step in enumerate(program.steps):
        for body in step.bodies:
            specs = {a: known[a] for a in body.args if a in known}
            if len(specs) < len(body.args):
                continue
            names = {a: f"x{_number(a)}0" for a in body.args}
            inputs = {**program.inputs, **{names[a]: s for a, s in specs.items()}}
            inner = renamed(body.steps, names)
            ends = [n for s in inner for n in s.names][-1:]
            if ends:
                steps = (*program.steps[:index], *inner)
                yield live(replace(program, inputs=inputs, steps=steps, outputs=tuple(ends)))


def _plainer(program: Program) -> Iterator[Program]:
    for plain in ({"x64": False}, {"opset": 23}, {"strict": False}, {"closure": False}):
        yield replace(program, **plain)
    for name, spec in program.weights.items():
        rest = {n: s for n, s in program.weights.items() if n != name}
        moved = f"x{name[1:]}"
        inputs = {**program.inputs, moved: spec}
        steps = renamed(program.steps, {name: moved})
        yield replace(program, weights=rest, inputs=inputs, steps=steps)
    for name, spec in program.inputs.items():
        if spec.kind == "f" and spec.dtype != "float32":
            inputs = {**program.inputs, name: Spec(spec.shape, "float32")}
            old = repr(spec.dtype)
            steps = changed(program.steps, lambda t, old=old: t.replace(old, "'float32'"))
            yield replace(program, inputs=inputs, steps=steps)
        names = {d for d in spec.shape if isinstance(d, str)}
        if names:
            yield replace(
                program,
                inputs={
                    n: Spec(tuple(3 if isinstance(d, str) else d for d in s.shape), s.dtype)
                    for n, s in program.inputs.items()
                },
            )
    used = {n for s in walk(program.steps) for n in NAME.findall(s.text)}
    unread = [n for n in program.inputs if n not in used and n not in program.outputs]
    for name in unread[:1]:
        if len(program.inputs) > 1:
            inputs = {n: s for n, s in program.inputs.items() if n != name}
            yield replace(program, inputs=inputs)


def _smaller(program: Program) -> Iterator[Program]:
    """A size becomes another wherever it is written; or in one axis of one input."""
    tables = (program.inputs, program.weights)
    sizes = {d for t in tables for s in t.values() for d in s.shape if isinstance(d, int)}
    for size in sorted(sizes, reverse=True):
        for less in range(min(size, 3), 0, -1):
            if less >= size:
                continue
            pattern, less_ = re.compile(rf"(?<![\w.])(?<!e-){size}(?![\w.])"), str(less)
            steps = changed(program.steps, lambda t, p=pattern, n=less_: p.sub(n, t))
            made = [
                {
                    n: Spec(tuple(less if d == size else d for d in s.shape), s.dtype)
                    for n, s in t.items()
                }
                for t in tables
            ]
            yield replace(program, inputs=made[0], weights=made[1], steps=steps)
    for name, spec in program.inputs.items():
        for axis, size in enumerate(spec.shape):
            for less in (1, 2):
                if isinstance(size, int) and size > less:
                    shape = (*spec.shape[:axis], less, *spec.shape[axis + 1 :])
                    yield replace(program, inputs={**program.inputs, name: Spec(shape, spec.dtype)})


def _number(name: str) -> int:
    return int(name[1:])


def _types(program: Program) -> dict[str, Spec] | None:
    """Types of all values, those of nested functions as they are inside; None if JAX refuses."""
    scope = export.SymbolicScope()
    known: dict[str, jax.ShapeDtypeStruct] = {}
    with jax.enable_x64(program.x64):
        try:
            for name, spec in (*program.inputs.items(), *program.weights.items()):
                known[name] = spec.struct(scope)
            found = dict(known)
            _note(program.steps, known, found)
        except IN_JAX:  # a change too far
            return None
    return {n: Spec.of(s) for n, s in found.items()}


def _note(
    steps: Sequence[Step],
    known: dict[str, jax.ShapeDtypeStruct],
    found: dict[str, jax.ShapeDtypeStruct],
) -> None:
    """Types after each step; inside of nested functions they are noted while these are traced."""
    for step in steps:
        NOTED.clear()
        results = types(replace(step, bodies=tuple(_watched(b) for b in step.bodies)), known)
        known.update(zip(step.names, results, strict=True))
        found.update(zip(step.names, results, strict=True))
        found.update(NOTED)


def _watched(body: Body) -> Body:
    """The function, noting the types of what it computes."""
    steps = [_noting(a) for a in body.args]
    for step in body.steps:
        steps.append(replace(step, bodies=tuple(_watched(b) for b in step.bodies)))
        steps += [_noting(n) for n in step.names]
    return replace(body, steps=tuple(steps))


def _noting(name: str) -> Step:
    return Step(("_",), f"note({name!r}, {name})")
