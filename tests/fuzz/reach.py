"""Inputs on which each branch of a program runs.

The calls of `lax.cond`, `lax.switch` and loops in its source are replaced by ones that note which
branch is taken, or whether a loop turns not at all, once or more often.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from converter.ir import Graph, named_sizes
from converter.verify.samples import samples
from converter.verify.whole_numbers import whole_numbers
from tests.fuzz.errors import ANY
from tests.fuzz.program import Program, executed, parameters, source

CALL = re.compile(r"\blax\.(cond|switch|while_loop|fori_loop)\(")

BUDGET = 64
"""So many inputs are drawn until each branch has run."""

CONSTANTS = (0, 1, 2, 5, -1, 3, 0.5, 4, 7, -3)

Taken = tuple[int, int]
"""The number of a call in the source, and that of one of its branches."""


class Watch:
    """The calls that note what is taken."""

    def __init__(self) -> None:
        self.known: set[Taken] = set()
        self.taken: set[Taken] = set()

    def _note(self, call: int, index: Any) -> None:
        self.taken |= {(call, int(i)) for i in np.unique(index)}

    def _watch(self, call: int, count: int, index: Any) -> None:
        if isinstance(index, (int, np.generic)):  # no input changes it
            return
        self.known |= {(call, i) for i in range(count)}
        chosen = jnp.clip(lax.convert_element_type(index, np.int32), 0, count - 1)
        jax.debug.callback(partial(self._note, call), chosen)

    def cond(self, call: int, predicate: Any, *operands: Any) -> Any:
        self._watch(call, 2, predicate != 0)
        return lax.cond(predicate, *operands)

    def switch(self, call: int, index: Any, branches: Sequence[Any], *operands: Any) -> Any:
        self._watch(call, len(branches), index)
        return lax.switch(index, branches, *operands)

    def while_loop(self, call: int, test: Any, body: Any, state: Any) -> Any:
        start = jnp.zeros((), np.int32), state
        turns, end = lax.while_loop(lambda s: test(s[1]), lambda s: (s[0] + 1, body(s[1])), start)
        self._watch(call, 3, turns)
        return end

    def fori_loop(self, call: int, low: Any, high: Any, body: Any, state: Any) -> Any:
        self._watch(call, 3, high - low)
        return lax.fori_loop(low, high, body, state)


class Reach:
    """Which branches of a program have run."""

    def __init__(self, program: Program) -> None:
        self._watch = Watch()
        numbers = itertools.count()
        code = CALL.sub(lambda m: f"watch.{m[1]}({next(numbers)}, ", source(program))
        fn, params = executed(code, watch=self._watch)["fn"], parameters(program)
        self._call = jax.jit(fn if params is None else partial(fn, params))
        self._runs = next(numbers) > 0
        self._has_run = False

    @property
    def known(self) -> int:
        return len(self._watch.known)

    @property
    def taken(self) -> int:
        return len(self._watch.taken)

    @property
    def is_complete(self) -> bool:
        return not self._runs or (self._has_run and self._watch.known == self._watch.taken)

    def run(self, inputs: Sequence[Any]) -> bool:
        """Whether a branch ran that had not run before."""
        if not self._runs:
            return False
        before = self.taken
        try:
            jax.block_until_ready(self._call(*inputs))
            jax.effects_barrier()
        except ANY:  # what a callback may not stand in
            self._runs = False
        self._has_run = True
        return self.taken > before

    def further(self, graph: Graph, seeds: range = range(BUDGET)) -> Iterator[Sequence[np.ndarray]]:
        """Inputs of a graph on which branches run that have not run yet."""
        if self.is_complete:
            return
        like = next(samples(graph))[1]
        sizes = named_sizes.read([v.shape for v in graph.inputs], [x.shape for x in like])
        limits = whole_numbers(graph)
        for seed in seeds:
            rng = np.random.default_rng(seed)
            turns = rng.integers(10**6, size=len(like))
            turns[seed % len(like)] = seed // len(like)
            pairs = zip(like, turns, strict=True)
            drawn = [steered(x.shape, x.dtype, rng, int(turn)) for x, turn in pairs]
            inputs = [n.brought(x, sizes) for n, x in zip(limits, drawn, strict=True)]
            if self.run(inputs):
                yield inputs
            if self.is_complete:
                return


def steered(
    shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator, turn: int
) -> np.ndarray:
    """Numbers near those of branches, of one sign, all of them the same, of any size; which of
    these follows from the turn."""
    normal = rng.standard_normal(shape)
    kind, constant = turn % 6, CONSTANTS[turn // 6 % len(CONSTANTS)]
    drawn = (
        lambda: rng.integers(-2, 8, shape),
        lambda: np.full(shape, constant),
        lambda: normal * 10 ** rng.uniform(-1, 2.5),
        lambda: normal + rng.choice([-5, -1, 1, 5]),
        lambda: (rng.random(shape) < rng.choice([0.1, 0.5, 0.9])) * rng.choice([-1, 1, 3]),
        lambda: abs(normal) * 10 ** rng.uniform(-1, 2.5) * rng.choice([-1, 1]),
    )[kind]()
    if dtype.kind == "b":
        return np.asarray(drawn > 0)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        drawn = np.clip(np.rint(drawn), info.min, info.max)
    return np.asarray(drawn).astype(dtype)
