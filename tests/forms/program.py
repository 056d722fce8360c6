"""A program as data: named inputs and weights, and steps that are lines of Python.

A step's line is an expression, whose names are its operands. The function that is converted is
compiled from the same source that is printed.
"""

from __future__ import annotations

import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export, lax

from tests.forms import own
from tests.forms.errors import IN_JAX

Shape = tuple[int | str, ...]

SCOPE = export.SymbolicScope()

NAME = re.compile(r"\b[vxwa]\d+\b")
"""Names of values: results of steps `v3`, inputs `x0`, weights `w1`, arguments of nested functions
`a2`."""


@dataclass(frozen=True)
class Spec:
    """Shape and dtype of a value. A dimension may be a name, as in `to_onnx`."""

    shape: Shape
    dtype: str

    @property
    def kind(self) -> str:
        """The kind of the dtype: one of `f`, `i`, `u` and `b`."""
        return "f" if self.dtype == "bfloat16" or self.dtype[0] not in "biu" else self.dtype[0]

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    @classmethod
    def of(cls, struct: Any) -> Spec:
        """Return the spec of an array or an abstract value of JAX."""
        shape = tuple(d if isinstance(d, int) else str(d) for d in struct.shape)
        return cls(shape, struct.dtype.name)

    @property
    def struct(self) -> jax.ShapeDtypeStruct:
        """The abstract value of JAX. All named dimensions are in one scope."""
        shape: Any = self.shape
        if not self.is_static:
            shape = export.symbolic_shape("".join(f"{d}," for d in shape), scope=SCOPE)
        return jax.ShapeDtypeStruct(shape, np.dtype(self.dtype))

    def __str__(self) -> str:
        dims = ", ".join(repr(d) for d in self.shape)
        return f"(({dims}{',' if len(self.shape) == 1 else ''}), {self.dtype!r})"


@dataclass(frozen=True)
class Body:
    """A nested function: its arguments, its steps, and the expression of its result."""

    name: str
    args: tuple[str, ...]
    steps: tuple[Step, ...]
    result: str


@dataclass(frozen=True)
class Step:
    """The line `names = text`, after the nested functions that the text calls. ``form`` is the name
    of the form from which the line was written."""

    names: tuple[str, ...]
    text: str
    bodies: tuple[Body, ...] = ()
    form: str = field(default="", repr=False)


@dataclass(frozen=True)
class Program:
    """A function to convert, and the options of its conversion."""

    inputs: Mapping[str, Spec]
    weights: Mapping[str, Spec]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    opset: int = 23
    x64: bool = False
    closure: bool = False
    """Whether the function closes over the weights; otherwise they are its first argument."""
    strict: bool = False

    def __len__(self) -> int:
        return sum(1 for _ in walk(self.steps))


def walk(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield every step, including those of nested functions."""
    for step in steps:
        for body in step.bodies:
            yield from walk(body.steps)
        yield step


def reads(step: Step) -> set[str]:
    """Return the names that a step reads, including those in nested functions."""
    names = set(NAME.findall(step.text))
    for body in step.bodies:
        names |= set(NAME.findall(body.result)).union(*(reads(s) for s in body.steps))
    return names


def _lines(steps: Iterable[Step]) -> Iterator[str]:
    for step in steps:
        for body in step.bodies:
            yield f"def {body.name}({', '.join(body.args)}):"
            yield from (f"    {line}" for line in [*_lines(body.steps), f"return {body.result}"])
        yield f"{', '.join(step.names)} = {step.text}"


def weight(name: str, spec: Spec) -> str:
    """Return the expression that draws a weight."""
    seed, shape = int(name[1:]), tuple(spec.shape)
    draws = {"f": f"standard_normal({shape})", "b": f"integers(0, 2, {shape})"}
    expression = f"{draws.get(spec.kind, f'integers(0, 7, {shape})')}).astype({spec.dtype!r})"
    return f"jax.device_put(np.asarray(np.random.default_rng({seed}).{expression})"


def source(program: Program) -> str:
    """Return the source of the function `fn`, and of the weights that it closes over."""
    unpack = [] if program.closure else [f"{name} = params[{name!r}]" for name in program.weights]
    body = [*unpack, *_lines(program.steps), f"return ({', '.join(program.outputs)},)"]
    head = "params, " if program.weights and not program.closure else ""
    drawn = [f"{name} = {weight(name, spec)}" for name, spec in program.weights.items()]
    lines = [*(drawn if program.closure else []), f"def fn({head}{', '.join(program.inputs)}):"]
    return "\n".join([*lines, textwrap.indent("\n".join(body), "    "), ""])


def printed(program: Program) -> str:
    """Return a script that converts and checks the program."""
    lines = ["import jax, jax.numpy as jnp, numpy as np", "from jax import lax", "import converter"]
    if program.x64:
        lines.append('jax.config.update("jax_enable_x64", True)')
    code = source(program)
    lines += ["from tests.forms import own", code] if "own." in code else [code]
    call, options = "fn", ""
    if program.weights and not program.closure:
        weights = ", ".join(f"{n!r}: {weight(n, s)}" for n, s in program.weights.items())
        lines.append(f"params = {{{weights}}}")
        call, options = "lambda *xs: fn(params, *xs)", ", params=params"
    options += ", strict=True" if program.strict else ""
    specs = ", ".join(map(str, program.inputs.values()))
    lines.append(f"export = converter.to_onnx(fn, [{specs}], opset={program.opset}{options})")
    lines.append(f"print(converter.check(export, {call}).differences)")
    return "\n".join(lines)


@lru_cache(256)
def _run(code: str) -> dict[str, Any]:
    return executed(code)


def executed(code: str, **names: Any) -> dict[str, Any]:
    """Return the namespace after running some code, which may also read `names`."""
    namespace = {"jax": jax, "jnp": jnp, "lax": lax, "np": np, "own": own, **names}
    exec(compile(code, "<program>", "exec"), namespace)
    return namespace


def parameters(program: Program) -> dict[str, Any] | None:
    """Return the weights if they are an argument of the function, otherwise None."""
    if program.closure or not program.weights:
        return None
    return {name: eval(weight(name, s), _run("")) for name, s in program.weights.items()}


def function(program: Program) -> tuple[Callable[..., Any], dict[str, Any] | None]:
    """Return the function to convert, and its parameters if they are an argument."""
    return _run(source(program))["fn"], parameters(program)


Types = Spec | tuple[Spec, ...]
"""The type of a line's result, or the types of its several results."""


def result_types(line: Step, known: Mapping[str, Spec]) -> Types | None:
    """Return the types of a line's results, from those of the ``known`` values. Return None if JAX
    refuses the line or a result is no array."""
    names = sorted(reads(line) & set(known))
    body = "\n".join([*_lines([replace(line, names=("result",))]), "return result"])
    code = f"def step({', '.join(names)}):\n{textwrap.indent(body, '    ')}\n"
    return _result_types(code, tuple(known[name] for name in names), jax.config.jax_enable_x64)


@lru_cache(20_000)  # hypothesis draws many programs that start with the same steps
def _result_types(code: str, operands: Sequence[Spec], x64: bool) -> Types | None:
    try:
        with warnings.catch_warnings(action="ignore"):  # in tests warnings are errors
            results = jax.eval_shape(_run(code)["step"], *(spec.struct for spec in operands))
    except IN_JAX:
        return None
    is_several = isinstance(results, (tuple, list))
    leaves = results if is_several else [results]
    if not all(isinstance(leaf, jax.ShapeDtypeStruct) for leaf in leaves):
        return None
    specs = tuple(map(Spec.of, leaves))
    return specs if is_several else specs[0]


def renamed(steps: Iterable[Step], table: Mapping[str, str]) -> tuple[Step, ...]:
    """Return the steps with other operands, including those of nested functions."""

    def rename(text: str) -> str:
        return NAME.sub(lambda m: table.get(m.group(), m.group()), text)

    def rename_body(body: Body) -> Body:
        return replace(body, steps=renamed(body.steps, table), result=rename(body.result))

    return tuple(
        replace(step, text=rename(step.text), bodies=tuple(map(rename_body, step.bodies)))
        for step in steps
    )


def live(program: Program) -> Program:
    """Return the program without steps, inputs and weights that nothing reads. One input stays."""
    steps = _live(program.steps, set(program.outputs))
    used = set(program.outputs).union(*(reads(s) for s in steps))
    inputs = {n: s for n, s in program.inputs.items() if n in used}
    if not inputs:
        inputs = dict(list(program.inputs.items())[:1])
    weights = {n: s for n, s in program.weights.items() if n in used}
    return replace(program, steps=steps, inputs=inputs, weights=weights)


def _live(steps: Sequence[Step], used: set[str]) -> tuple[Step, ...]:
    """Return the steps whose results are in ``used`` or are read by such steps. Adds the names that
    they read to ``used``."""
    live_steps: list[Step] = []
    for step in reversed(steps):
        if used & set(step.names):
            bodies = tuple(
                replace(b, steps=_live(b.steps, set(NAME.findall(b.result)))) for b in step.bodies
            )
            step = replace(step, bodies=bodies)
            used |= reads(step)
            live_steps.append(step)
    return tuple(reversed(live_steps))
