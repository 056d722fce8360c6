"""Programs at random: the values that there are, and steps that fit them."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
from jax import export

from tests.fuzz.errors import IN_JAX
from tests.fuzz.pool import DTYPES, EMPTY, LARGEST, LIMITS, WIDE, Limits, Pool, Unfit, Whole
from tests.fuzz.program import Body, Program, Shape, Spec, Step, live, reads, types


class Draw(Pool):
    """One function while it is drawn."""

    def __init__(self, whole: Whole, pool: dict[str, Spec]) -> None:
        super().__init__(whole, pool)
        self.bodies: list[Body] = []
        self.steps: list[Step] = []

    # ------------------------------------------------------------------------- nested functions

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

    # -------------------------------------------------------------------------------- steps

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
        before = set(self.pool), set(self.whole.inputs), set(self.whole.weights)
        try:
            text = maker(self)
            names, specs = self.typed(text)
        except (Unfit, *IN_JAX):
            self._forget(*before)
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
        found = [self._spec(r) for r in (results if several else [results])]
        for spec in found:
            size = math.prod(d if isinstance(d, int) else 4 for d in spec.shape)
            if size > LARGEST or spec.rank > 5 or spec.kind not in "fiub":
                raise Unfit
        if several and len(found) == 1:
            raise Unfit
        if not several:
            return (name,), found
        return tuple(f"v{self.whole.number()}" for _ in found), found

    def _spec(self, result: Any) -> Spec:
        if not isinstance(result, jax.ShapeDtypeStruct) or result.dtype.name not in ALL:
            raise Unfit
        return Spec.of(result)

    def _forget(self, pool: set[str], inputs: set[str], weights: set[str]) -> None:
        for table, kept in (
            (self.pool, pool),
            (self.whole.inputs, inputs),
            (self.whole.weights, weights),
        ):
            for name in set(table) - kept:
                del table[name]


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
    outputs = {*ends[-3:], *rng.sample(made, min(len(made), rng.randint(0, 1)))}
    opset = rng.choice((23, 23, 23, 24, 26, 18, 21, 17))
    return live(
        Program(
            whole.inputs,
            whole.weights,
            tuple(first.steps),
            tuple(n for n in made if n in outputs),
            opset,
            x64,
            rng.random() < 0.4,
            rng.random() < 0.5,
        )
    )
