"""A program as data: named inputs and weights, and steps that are lines of Python.

A step's line is an expression over names, so that operands are the names in it. The function that
is converted is made from the very source that is printed.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from tests.fuzz import own

Shape = tuple[int | str, ...]

NAME = re.compile(r"\b[vxwa]\d+\b")
"""Values: steps' results `v3`, inputs `x0`, weights `w1`, arguments of nested functions `a2`."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of a value; a dimension may be a name, as in `to_onnx`."""

    shape: Shape
    dtype: str

    @property
    def kind(self) -> str:
        """One of `fiub`."""
        return "f" if self.dtype == "bfloat16" or self.dtype[0] not in "biu" else self.dtype[0]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @classmethod
    def of(cls, struct: Any) -> Spec:
        """That of a value in JAX."""
        shape = tuple(d if isinstance(d, int) else str(d) for d in struct.shape)
        return cls(shape, struct.dtype.name)

    def struct(self, scope: export.SymbolicScope) -> jax.ShapeDtypeStruct:
        """As JAX has it."""
        shape: Any = self.shape
        if not self.is_static:
            shape = export.symbolic_shape("".join(f"{d}," for d in shape), scope=scope)
        return jax.ShapeDtypeStruct(shape, np.dtype(self.dtype))

    def __str__(self) -> str:
        dims = ", ".join(repr(d) for d in self.shape)
        return f"(({dims}{',' if len(self.shape) == 1 else ''}), {self.dtype!r})"


@dataclass(frozen=True)
class Body:
    """A nested function: its arguments, its steps, and the expression that it returns."""

    name: str
    args: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str


@dataclass(frozen=True)
class Step:
    """`names = text`, after the functions that the text calls."""

    names: tuple[str, ...]
    text: str
    bodies: tuple[Body, ...] = ()


@dataclass(frozen=True)
class Program:
    """What is converted, and how."""

    inputs: Mapping[str, Spec]
    weights: Mapping[str, Spec]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    opset: int = 23
    x64: bool = False
    closure: bool = False
    """Whether the function closes over the weights; else they are its first argument."""
    strict: bool = False

    def __len__(self) -> int:
        return sum(1 for _ in walk(self.steps))


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Every step, those of nested functions included."""
    for step in steps:
        for body in step.bodies:
            yield from walk(body.steps)
        yield step


def reads(step: Step) -> set[str]:
    """Names that a step reads, nested functions included."""
    found = set(NAME.findall(step.text))
    for body in step.bodies:
        found |= set(NAME.findall(body.result)).union(*(reads(s) for s in body.steps))
    return found


def _lines(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        for body in step.bodies:
            yield f"def {body.name}({', '.join(body.args)}):"
            yield from (f"    {line}" for line in [*_lines(body.steps), f"return {body.result}"])
        yield f"{', '.join(step.names)} = {step.text}"


def weight(name: str, spec: Spec) -> str:
    """The expression that draws a weight."""
    seed, shape = int(name[1:]), tuple(spec.shape)
    draws = {"f": f"standard_normal({shape})", "b": f"integers(0, 2, {shape})"}
    drawn = f"{draws.get(spec.kind, f'integers(0, 7, {shape})')}).astype({spec.dtype!r})"
    return f"jax.device_put(np.asarray(np.random.default_rng({seed}).{drawn})"


def source(program: Program) -> str:
    """The function `fn`, and the weights that it closes over."""
    unpack = [] if program.closure else [f"{name} = params[{name!r}]" for name in program.weights]
    body = [*unpack, *_lines(program.steps), f"return ({', '.join(program.outputs)},)"]
    head = "params, " if program.weights and not program.closure else ""
    drawn = [f"{name} = {weight(name, spec)}" for name, spec in program.weights.items()]
    lines = [*(drawn if program.closure else []), f"def fn({head}{', '.join(program.inputs)}):"]
    return "\n".join([*lines, textwrap.indent("\n".join(body), "    "), ""])


def printed(program: Program) -> str:
    """A script that a person can paste."""
    lines = ["import jax, jax.numpy as jnp, numpy as np", "from jax import lax", "import converter"]
    if program.x64:
        lines.append('jax.config.update("jax_enable_x64", True)')
    code = source(program)
    lines += ["from tests.fuzz import own", code] if "own." in code else [code]
    call, more = "fn", ""
    if program.weights and not program.closure:
        drawn = ", ".join(f"{n!r}: {weight(n, s)}" for n, s in program.weights.items())
        lines.append(f"params = {{{drawn}}}")
        call, more = "lambda *xs: fn(params, *xs)", ", params=params"
    more += ", strict=True" if program.strict else ""
    specs = ", ".join(map(str, program.inputs.values()))
    lines.append(f"export = converter.to_onnx(fn, [{specs}], opset={program.opset}{more})")
    lines.append(f"print(converter.check(export, {call}).differences)")
    return "\n".join(lines)


@lru_cache(256)
def _run(code: str) -> dict[str, Any]:
    return executed(code)


def executed(code: str, **names: Any) -> dict[str, Any]:
    """Everything that is defined after some code, which may read these names too."""
    namespace = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "own": own, **names}
    exec(compile(code, "<program>", "exec"), namespace)
    return namespace


def parameters(program: Program) -> dict[str, Any] | None:
    """The weights, if the function takes them."""
    if program.closure or not program.weights:
        return None
    return {name: eval(weight(name, s), _run("")) for name, s in program.weights.items()}


def function(program: Program) -> tuple[Callable[..., Any], dict[str, Any] | None]:
    """What is passed to `to_onnx`: the function, and its parameters if it takes them."""
    return _run(source(program))["fn"], parameters(program)


def types(step: Step, known: Mapping[str, Any]) -> list[Any]:
    """Shapes and dtypes of what a step gives, where those of all other values are known."""
    names = sorted(reads(step) & set(known))
    body = "\n".join([*_lines([step]), f"return ({', '.join(step.names)},)"])
    code = f"def step({', '.join(names)}):\n{textwrap.indent(body, '    ')}\n"
    return list(jax.eval_shape(_run(code)["step"], *(known[name] for name in names)))


def renamed(steps: Iterable[Step], table: Mapping[str, str]) -> tuple[Step, ...]:
    """Steps with other operands, nested functions included."""

    def other(text: str) -> str:
        return NAME.sub(lambda m: table.get(m.group(), m.group()), text)

    def inside(body: Body) -> Body:
        return replace(body, steps=renamed(body.steps, table), result=other(body.result))

    return tuple(
        replace(step, text=other(step.text), bodies=tuple(map(inside, step.bodies)))
        for step in steps
    )


def live(program: Program) -> Program:
    """Without steps, inputs and weights that nothing reads; one input stays."""
    steps = _live(program.steps, set(program.outputs))
    used = set(program.outputs).union(*(reads(s) for s in steps))
    inputs = {n: s for n, s in program.inputs.items() if n in used}
    if not inputs:
        inputs = dict(list(program.inputs.items())[:1])
    weights = {n: s for n, s in program.weights.items() if n in used}
    return replace(program, steps=steps, inputs=inputs, weights=weights)


def _live(steps: Sequence[Step], used: set[str]) -> tuple[Step, ...]:
    kept: list[Step] = []
    for step in reversed(steps):
        if used & set(step.names):
            bodies = tuple(
                replace(b, steps=_live(b.steps, set(NAME.findall(b.result)))) for b in step.bodies
            )
            step = replace(step, bodies=bodies)
            used |= reads(step)
            kept.append(step)
    return tuple(reversed(kept))
