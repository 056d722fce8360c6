"""Programs at random: the values that there are, and steps that fit them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np
from jax import export

from tests.conformance import NEWEST
from tests.fuzz.errors import IN_JAX
from tests.fuzz.program import Body, Program, Shape, Spec, Step, live, reads, types

SIZES = (2, 3, 3, 4, 4, 5, 6, 1)
"""Sizes of dimensions; those that are written twice come twice as often."""

EMPTY = 0.2
"""How many programs have sizes of zero too."""

LARGEST = 400
"""Elements of the largest value."""

DTYPES = {
    **{"float32": 60, "int32": 12, "bool": 6, "float16": 7, "bfloat16": 2},
    **{"uint8": 4, "int8": 3, "uint32": 2, "int16": 1, "uint16": 1},
}
WIDE = {"float64": 30, "int64": 20, "uint64": 5}


class Unfit(Exception):
    """There is no value that this step could take."""


@dataclass(frozen=True)
class Limits:
    """How large programs are."""

    steps: tuple[int, int] = (2, 12)
    sizes: Sequence[int] = SIZES


LIMITS = Limits()


@dataclass
class Whole:
    """What belongs to the program and not to one of its functions."""

    rng: random.Random
    limits: Limits
    x64: bool
    symbolic: bool
    scope: export.SymbolicScope
    inputs: dict[str, Spec] = field(default_factory=dict)
    weights: dict[str, Spec] = field(default_factory=dict)
    structs: dict[str, Any] = field(default_factory=dict)
    count: int = 0
    depth: int = 0

    def number(self) -> int:
        self.count += 1
        return self.count - 1


class Draw:
    """One function while it is drawn: its steps, and the values that they may read, by name."""

    def __init__(self, whole: Whole, pool: dict[str, Spec]) -> None:
        self.whole = whole
        self.rng = whole.rng
        self.pool = pool
        self.bodies: list[Body] = []
        self.steps: list[Step] = []

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def choice(self, *options: Any) -> Any:
        return self.rng.choice(options)

    def integer(self, low: int, high: int) -> int:
        """From ``low`` to ``high``, both included."""
        if high < low:
            raise Unfit
        return self.rng.randint(low, high)

    def axis(self, name: str, *, negative: bool = True) -> int:
        """An axis of a value, counted from either end."""
        rank = self.pool[name].rank
        axis = self.integer(0, rank - 1)
        return axis - rank if negative and self.chance(0.3) else axis

    def axes(self, name: str) -> tuple[int, ...]:
        """Some axes of a value."""
        rank = self.pool[name].rank
        return tuple(sorted(self.rng.sample(range(rank), self.integer(1, rank))))

    def number(self) -> str:
        """A number as Python writes it."""
        return self.choice("0.5", "2.0", "-1.5", "0.1", "3", "-2", "1e-3", "1.0")

    def any(
        self, kinds: str = "fiub", rank: tuple[int, int] = (0, 9), *, static: bool = False
    ) -> str:
        """The name of a value, more often a late one."""
        fits = [
            name
            for name, spec in self.pool.items()
            if spec.kind in kinds and rank[0] <= spec.rank <= rank[1]
            if spec.is_static or not static
        ]
        if not fits:
            raise Unfit
        late = [name for name in fits if name[0] != "w" and name[0] != "x"][-2:]
        return self.rng.choice(late if late and self.chance(0.75) else fits)

    def floating(self, low: int = 0, high: int = 9, *, static: bool = False) -> str:
        return self.any("f", (low, high), static=static)

    def shape(self, name: str) -> Any:
        """A shape of integers."""
        if not self.pool[name].is_static:
            raise Unfit
        return self.pool[name].shape

    def like(self, name: str) -> str:
        """A value of the same type: one that there is, or a new one."""
        spec = self.pool[name]
        fits = [n for n, s in self.pool.items() if s == spec]
        return self.rng.choice(fits) if self.chance(0.7) else self.fresh(spec.shape, spec.dtype)

    def of(self, shape: Shape, dtype: str) -> str:
        """A value of this type: one that there is, or a new one."""
        fits = [n for n, s in self.pool.items() if s == Spec(tuple(shape), dtype)]
        return self.rng.choice(fits) if fits and self.chance(0.6) else self.fresh(shape, dtype)

    def broadcastable(self, name: str) -> str:
        """A value that broadcasts against another, of the same dtype."""
        spec = self.pool[name]
        if self.chance(0.5):
            return self.like(name)
        shape = [1 if self.chance(0.3) else d for d in spec.shape]
        return self.of(tuple(shape[self.integer(0, spec.rank) :]), spec.dtype)

    def fresh(self, shape: Shape, dtype: str) -> str:
        """A new input or weight."""
        whole = self.whole
        if len(whole.inputs) + len(whole.weights) > 6:
            raise Unfit
        names = [d for d in shape if isinstance(d, str)]
        if not all(name.isidentifier() for name in names):
            raise Unfit
        spec = Spec(tuple(shape), dtype)
        if names or not whole.inputs or self.chance(0.5):
            name, table = f"x{whole.number()}", whole.inputs
        else:
            name, table = f"w{whole.number()}", whole.weights
        table[name] = spec
        self.add(name, spec)
        return name

    def add(self, name: str, spec: Spec) -> None:
        self.pool[name] = spec
        self.whole.structs[name] = spec.struct(self.whole.scope)

    def dtype(self) -> str:
        table = DTYPES if not self.whole.x64 or self.chance(0.4) else WIDE
        return self.rng.choices(list(table), list(table.values()))[0]

    def size(self) -> int:
        return self.rng.choice(self.whole.limits.sizes)

    def sizes(self, low: int, high: int) -> tuple[int, ...]:
        """A shape."""
        return tuple(self.size() for _ in range(self.integer(low, high)))

    def indices(self, shape: Shape, bound: Any, dtype: str = "int32") -> str:
        """Indices of an axis: a value that may leave it, or a constant that does not."""
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
        """Draw a function of such arguments; ``finish`` writes what it returns."""
        whole = self.whole
        if whole.depth >= 2:
            raise Unfit
        inner = Draw(whole, dict(self.pool) if capture and self.chance(0.4) else {})
        outside = set(inner.pool)
        names = [f"a{whole.number()}" for _ in args]
        for name, spec in zip(names, args, strict=True):
            inner.add(name, spec)
        whole.depth += 1
        try:
            inner.extend(self.integer(*steps))
            result = finish(inner)
        finally:
            whole.depth -= 1
        fresh = {**whole.inputs, **whole.weights}
        self.pool.update((n, fresh[n]) for n in inner.pool if n in fresh and n not in outside)
        body = Body(f"f{whole.number()}", tuple(names), tuple(inner.steps), result)
        self.bodies.append(body)
        return body.name

    def extend(self, count: int) -> None:
        """Add so many steps."""
        from tests.fuzz.steps import STEPS, WEIGHTS

        done = 0
        for _ in range(count * 8):
            if done == count:
                return
            maker = self.rng.choices(STEPS, WEIGHTS)[0]
            done += self.attempt(maker)

    def attempt(self, maker: Callable[[Draw], str]) -> bool:
        """Add a step if it fits, and if JAX takes it."""
        self.bodies = []
        tables = (self.pool, self.whole.inputs, self.whole.weights)
        before = [set(table) for table in tables]
        try:
            text = maker(self)
            names, specs = self.typed(text)
        except (Unfit, *IN_JAX):
            for table, kept in zip(tables, before, strict=True):
                for name in set(table) - kept:
                    del table[name]
            return False
        TAKEN[maker.__name__] += 1
        self.steps.append(Step(names, text, tuple(self.bodies)))
        for name, spec in zip(names, specs, strict=True):
            self.add(name, spec)
        return True

    def typed(self, text: str) -> tuple[tuple[str, ...], list[Spec]]:
        """Names for what a line gives, and its types."""
        name = f"v{self.whole.number()}"
        results = types(Step((name,), text, tuple(self.bodies)), self.whole.structs)[0]
        several = isinstance(results, (tuple, list))
        found = []
        for result in results if several else [results]:
            if not isinstance(result, jax.ShapeDtypeStruct) or result.dtype.name not in ALL:
                raise Unfit
            spec = Spec.of(result)
            size = math.prod(d if isinstance(d, int) else 4 for d in spec.shape)
            if size > LARGEST or spec.rank > 5:
                raise Unfit
            found.append(spec)
        if several and len(found) == 1:
            raise Unfit
        return (tuple(f"v{self.whole.number()}" for _ in found) if several else (name,)), found


ALL = {*DTYPES, *WIDE}

TAKEN: Counter[str] = Counter()
"""How often each kind of step was taken; a test sees that none is never."""


def draw(seed: str, limits: Limits = LIMITS) -> Program:
    """The program of a seed."""
    rng = random.Random(seed)
    x64 = rng.random() < 0.12
    scope = export.SymbolicScope()
    if rng.random() < EMPTY:
        limits = replace(limits, sizes=(*limits.sizes, 0))
    whole = Whole(rng, limits, x64, rng.random() < 0.15, scope)
    with jax.enable_x64(x64):
        first = Draw(whole, {})
        for _ in range(first.integer(1, 2)):
            shape: Shape = first.sizes(0, 4) if first.chance(0.3) else first.sizes(1, 3)
            if whole.symbolic:
                shape = ("B", *shape[1:])
            elif shape and first.chance(0.1):
                shape = (1, *shape[1:])
            first.fresh(shape, first.dtype() if first.chance(0.4) else "float32")
        first.extend(first.integer(*limits.steps))
    made = [name for step in first.steps for name in step.names]
    if not made:
        return draw(seed + "+", limits)
    read = set[str]().union(*(reads(step) for step in first.steps))
    ends = [name for name in made if name not in read]
    outputs = {*ends[-4:], *rng.sample(made, min(len(made), rng.randint(0, 1)))}
    opset = min(rng.choice((23, 23, 23, 24, 26, 18, 21, 17)), NEWEST)
    kept = tuple(n for n in made if n in outputs)
    program = Program(whole.inputs, whole.weights, tuple(first.steps), kept, opset, x64)
    return live(replace(program, closure=rng.random() < 0.4, strict=rng.random() < 0.5))
