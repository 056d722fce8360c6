"""Draw random programs step by step. Each step takes values of the steps before it.

A `random.Random` drives the drawing. hypothesis has one too, which `programs` uses. It makes a
failing program smaller by drawing smaller numbers, so the simplest of several options should be the
first one.
"""

from __future__ import annotations

import math
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from random import Random
from typing import TYPE_CHECKING, Any, TypeVar

import jax
import numpy as np
from hypothesis import strategies as st

from tests.conformance import NEWEST
from tests.forms.errors import IN_JAX
from tests.forms.program import Body, Program, Shape, Spec, Step, live, reads, result_types

if TYPE_CHECKING:
    from tests.forms.steps.registry import Form

SIZES = (2, 3, 3, 4, 4, 5, 6, 1)
"""Sizes of dimensions. A size that occurs twice is drawn twice as often."""

EMPTY = 0.2
"""The share of programs whose dimensions may also have size zero."""

LARGEST = 400
"""The largest number of elements of a value."""

DTYPES: Mapping[str, float] = {
    **{"float32": 60, "int32": 12, "bool": 6, "float16": 7, "bfloat16": 2},
    **{"uint8": 4, "int8": 3, "uint32": 2, "int16": 1, "uint16": 1},
}
WIDE: Mapping[str, float] = {"float64": 30, "int64": 20, "uint64": 5}


ATTEMPTS = 8
"""The number of attempts to add a step."""

T = TypeVar("T")


class Unfit(Exception):
    """Raised if no value fits a step."""


@dataclass(frozen=True)
class Limits:
    """The numbers of steps and of inputs of programs, the sizes of dimensions, and the forms of
    steps with their weights, which by default are all forms with their own weights."""

    steps: tuple[int, int] = (1, 12)
    sizes: Sequence[int] = SIZES
    weights: Mapping[str, float] = field(default_factory=dict)
    inputs: int = 7


LIMITS = Limits()


def below(rng: Random, bound: int) -> int:
    """Draw an integer from zero to ``bound``, excluded.

    It is computed from three bytes. hypothesis would prefer small integers. It also takes some
    integers and bytes from the literals of imported modules, so that each process would draw other
    programs. None of these literals has three bytes.
    """
    return int.from_bytes(rng.randbytes(3), "big") * bound >> 24


def chance(rng: Random, probability: float) -> bool:
    """Return True with this probability, rounded to whole percent."""
    return below(rng, 100) >= 100 - round(100 * probability)


@dataclass
class ProgramState:
    """The state of a program that is drawn, shared by all of its functions."""

    rng: Random
    limits: Limits
    x64: bool
    symbolic: bool
    inputs: dict[str, Spec] = field(default_factory=dict)
    weights: dict[str, Spec] = field(default_factory=dict)
    specs: dict[str, Spec] = field(default_factory=dict)
    choose: Callable[[Draw, Sequence[Any]], Any] = lambda d, options: d.pick(options)
    """The choice of an alternative."""
    count: int = 0
    depth: int = 0

    def number(self) -> int:
        self.count += 1
        return self.count - 1


class Draw:
    """A function that is drawn: its steps, and the values by name that its steps may read."""

    def __init__(self, state: ProgramState, pool: dict[str, Spec]) -> None:
        self.state = state
        self.rng = state.rng
        self.pool = pool
        self.bodies: list[Body] = []
        self.steps: list[Step] = []

    def chance(self, probability: float) -> bool:
        return chance(self.rng, probability)

    def choice(self, *options: Any) -> Any:
        """Draw one of the alternatives of a form."""
        return self.state.choose(self, options)

    def pick(self, options: Sequence[T]) -> T:
        """Draw one of the options. Raises `Unfit` if there are none."""
        if not options:
            raise Unfit
        return options[below(self.rng, len(options))]

    def sample(self, options: Iterable[T], count: int) -> list[T]:
        """Draw several of the options, in the drawn order.

        hypothesis varies only the results of a generator's own `sample`, so that most programs
        would be near copies.
        """
        remaining = list(options)
        return [remaining.pop(below(self.rng, len(remaining))) for _ in range(count)]

    def weighted(self, options: Mapping[T, float]) -> T:
        """Draw one of the options, each with its weight."""
        ends = list(accumulate(options.values()))
        return list(options)[bisect(ends, below(self.rng, 2**16) / 2**16 * ends[-1])]

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included. Raises `Unfit` if there is
        none."""
        if high < low:
            raise Unfit
        return low + below(self.rng, high - low + 1)

    def axis(self, name: str, *, negative: bool = True) -> int:
        """Draw an axis of a value, counted from either end."""
        rank = self.pool[name].rank
        axis = self.integer(0, rank - 1)
        return axis - rank if negative and self.chance(0.3) else axis

    def axes(self, name: str) -> tuple[int, ...]:
        """Draw one or more axes of a value, in ascending order."""
        rank = self.pool[name].rank
        return tuple(sorted(self.sample(range(rank), self.integer(1, rank))))

    def number(self) -> str:
        """Draw a number as Python writes it."""
        return self.choice("0.5", "2.0", "-1.5", "0.1", "3", "-2", "1e-3", "1.0")

    def any(
        self, kinds: str = "fiub", rank: tuple[int, int] = (0, 9), *, static: bool = False
    ) -> str:
        """Draw the name of a value of these kinds and ranks. The last two results are drawn more
        often."""
        fits = [
            name
            for name, spec in self.pool.items()
            if spec.kind in kinds and rank[0] <= spec.rank <= rank[1]
            if spec.is_static or not static
        ]
        if not fits:
            raise Unfit
        late = [name for name in fits if name[0] != "w" and name[0] != "x"][-2:]
        return self.pick(late if late and self.chance(0.75) else fits)

    def floating(self, low: int = 0, high: int = 9, *, static: bool = False) -> str:
        """Draw the name of a float of a rank between ``low`` and ``high``."""
        return self.any("f", (low, high), static=static)

    def shape(self, name: str) -> Any:
        """Return the shape of a value. Raises `Unfit` if it has named dimensions."""
        if not self.pool[name].is_static:
            raise Unfit
        return self.pool[name].shape

    def like(self, name: str) -> str:
        """Return the name of a value with the same shape and dtype, which may be new."""
        spec = self.pool[name]
        fits = [n for n, s in self.pool.items() if s == spec]
        return self.pick(fits) if self.chance(0.7) else self.fresh(spec.shape, spec.dtype)

    def of(self, shape: Shape, dtype: str) -> str:
        """Return the name of a value of this shape and dtype, which may be new."""
        fits = [n for n, s in self.pool.items() if s == Spec(tuple(shape), dtype)]
        return self.pick(fits) if fits and self.chance(0.6) else self.fresh(shape, dtype)

    def broadcastable(self, name: str) -> str:
        """Return the name of a value of the same dtype that broadcasts against a value."""
        spec = self.pool[name]
        if self.chance(0.5):
            return self.like(name)
        shape = [1 if self.chance(0.3) else d for d in spec.shape]
        return self.of(tuple(shape[self.integer(0, spec.rank) :]), spec.dtype)

    def fresh(self, shape: Shape, dtype: str) -> str:
        """Add an input or a weight of this shape and dtype. Return its name. Raises `Unfit` if the
        program has as many as it may have."""
        state = self.state
        if len(state.inputs) + len(state.weights) >= state.limits.inputs:
            raise Unfit
        names = [d for d in shape if isinstance(d, str)]
        if not all(name.isidentifier() for name in names):
            raise Unfit
        spec = Spec(tuple(shape), dtype)
        if names or not state.inputs or self.chance(0.5):
            name, table = f"x{state.number()}", state.inputs
        else:
            name, table = f"w{state.number()}", state.weights
        table[name] = spec
        self.add(name, spec)
        return name

    def add(self, name: str, spec: Spec) -> None:
        """Add a value to those that later steps may read."""
        self.pool[name] = spec
        self.state.specs[name] = spec

    def dtype(self) -> str:
        table = DTYPES if not self.state.x64 or self.chance(0.4) else WIDE
        return self.weighted(table)

    def size(self) -> int:
        return self.pick(self.state.limits.sizes)

    def sizes(self, low: int, high: int) -> tuple[int, ...]:
        """Draw a shape with ``low`` to ``high`` axes."""
        return tuple(self.size() for _ in range(self.integer(low, high)))

    def indices(self, shape: Shape, bound: Any, dtype: str = "int32") -> str:
        """Return indices of an axis of size ``bound``: a value, which may be out of range, or a
        constant, which is in range."""
        if self.chance(0.5) or not isinstance(bound, int) or not bound:
            return self.of(shape, dtype)
        if any(not isinstance(d, int) for d in shape):
            raise Unfit
        low, count = -bound if self.chance(0.4) else 0, math.prod(shape)
        nested = np.reshape([self.integer(low, bound - 1) for _ in range(count)], shape).tolist()
        return f"jnp.array({nested}, {dtype!r})" if count else self.of(shape, dtype)

    def function(
        self,
        args: Sequence[Spec],
        finish: Callable[[Draw], str],
        steps: tuple[int, int] = (1, 4),
        *,
        capture: bool = True,
    ) -> str:
        """Draw a function of arguments of these types. Return its name. ``finish`` returns the
        expression of its result. With ``capture`` it may read values around it."""
        state = self.state
        if state.depth >= 2:
            raise Unfit
        inner = Draw(state, dict(self.pool) if capture and self.chance(0.4) else {})
        outside = set(inner.pool)
        names = [f"a{state.number()}" for _ in args]
        for name, spec in zip(names, args, strict=True):
            inner.add(name, spec)
        state.depth += 1
        try:
            inner.extend(*steps)
            result = finish(inner)
        finally:
            state.depth -= 1
        fresh = {**state.inputs, **state.weights}
        self.pool.update((n, fresh[n]) for n in inner.pool if n in fresh and n not in outside)
        body = Body(f"f{state.number()}", tuple(names), tuple(inner.steps), result)
        self.bodies.append(body)
        return body.name

    def extend(self, low: int, high: int) -> None:
        """Add ``low`` to ``high`` steps, or fewer if too many attempts fail."""
        from tests.forms.steps import FORMS

        weights = self.state.limits.weights or {n: form.weight for n, form in FORMS.items()}
        for count in range(high):
            # A number of steps that is drawn before the steps would keep hypothesis from deleting
            # one of them.
            if count >= low and not below(self.rng, high - count + 1):
                return
            if not any(self.attempt(FORMS[self.weighted(weights)]) for _ in range(ATTEMPTS)):
                return

    def attempt(self, form: Form) -> bool:
        """Add a step of a form if it fits and JAX accepts it. Return whether it was added."""
        self.bodies = []
        tables = (self.pool, self.state.inputs, self.state.weights)
        previous_names = [set(table) for table in tables]
        try:
            text = form.write(self)
            names, specs = self.typed(text)
        except (Unfit, *IN_JAX):
            for table, previous in zip(tables, previous_names, strict=True):
                for name in set(table) - previous:
                    del table[name]
            return False
        self.steps.append(Step(names, text, tuple(self.bodies), form.name))
        for name, spec in zip(names, specs, strict=True):
            self.add(name, spec)
        return True

    def typed(self, text: str) -> tuple[tuple[str, ...], list[Spec]]:
        """Return names for the results of a line, and their types. Raises `Unfit` if a result is
        too large or no array."""
        types = result_types(Step((), text, tuple(self.bodies)), self.state.specs)
        specs = [types] if isinstance(types, Spec) else types or ()
        if not specs or (not isinstance(types, Spec) and len(specs) == 1):
            raise Unfit
        for spec in specs:
            size = math.prod(d if isinstance(d, int) else 4 for d in spec.shape)
            if size > LARGEST or spec.rank > 5 or spec.dtype not in ALL:
                raise Unfit
        return tuple(f"v{self.state.number()}" for _ in specs), list(specs)


ALL = {*DTYPES, *WIDE}


def draw(rng: Random, limits: Limits = LIMITS) -> Program:
    """Draw a program."""
    x64 = chance(rng, 0.12)
    if chance(rng, EMPTY):
        limits = replace(limits, sizes=(*limits.sizes, 0))
    symbolic = chance(rng, 0.15)
    state = ProgramState(rng, limits, x64, symbolic)
    with jax.enable_x64(x64):
        first = Draw(state, {})
        for _ in range(first.integer(1, 2)):
            shape: Shape = first.sizes(0, 4) if first.chance(0.3) else first.sizes(1, 3)
            if symbolic:
                shape = ("B", *shape[1:])
            elif shape and first.chance(0.1):
                shape = (1, *shape[1:])
            first.fresh(shape, first.dtype() if first.chance(0.4) else "float32")
        first.extend(*limits.steps)
    results = [name for step in first.steps for name in step.names]
    if not results:
        return draw(rng, limits)
    read = set[str]().union(*(reads(step) for step in first.steps))
    unread = [name for name in results if name not in read]
    outputs = {name for name in unread[-4:] if first.chance(0.95)}
    outputs = outputs | {*first.sample(results, first.integer(0, 1))} or {results[-1]}
    opset = min(first.choice(23, 23, 23, 24, 26, 18, 21, 17), NEWEST)
    output_names = tuple(n for n in results if n in outputs)
    program = Program(state.inputs, state.weights, tuple(first.steps), output_names, opset, x64)
    return live(replace(program, closure=chance(rng, 0.4), strict=chance(rng, 0.5)))


def programs(limits: Limits = LIMITS) -> st.SearchStrategy[Program]:
    """Return the strategy of hypothesis that draws programs."""
    return st.randoms(use_true_random=False).map(lambda rng: draw(rng, limits))
