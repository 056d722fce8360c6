"""Inputs on which each branch of a program runs.

The calls of `lax.cond`, `lax.switch` and loops in its source are replaced by ones that note which
branch is taken, or whether a loop turns not at all, once or more often.
"""

import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.errors import ANY
from tests.fuzz.program import Program, executed, parameters, source

CALL = re.compile(r"\blax\.(cond|switch|while_loop|fori_loop)\(")

BUDGET = 96
"""So many inputs are drawn until each branch has run."""

MOST = 8
"""So many of them are kept at most."""

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
        self.known |= {(call, i) for i in range(count)}
        chosen = jnp.clip(lax.convert_element_type(index, np.int32), 0, count - 1)
        jax.debug.callback(partial(self._note, call), chosen)

    def cond(self, call: int, predicate: Any, *operands: Any) -> Any:
        self._watch(call, 2, jnp.asarray(predicate) != 0)
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
        self._watch(call, 3, jnp.asarray(high) - low)
        return lax.fori_loop(low, high, body, state)


class Reach:
    """Which branches of a program have run."""

    def __init__(self, program: Program) -> None:
        self._watch = Watch()
        numbers = itertools.count()
        code = CALL.sub(lambda m: f"watch.{m[1]}({next(numbers)}, ", source(program))
        fn, params = executed(code, watch=self._watch)["fn"], parameters(program)
        self._call = jax.jit(fn if params is None else partial(fn, params))
        self._runs = CALL.search(str(program)) is not None

    @property
    def known(self) -> int:
        return len(self._watch.known)

    @property
    def taken(self) -> int:
        return len(self._watch.taken)

    @property
    def is_complete(self) -> bool:
        return not self._runs or self._watch.known == self._watch.taken

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
        return self.taken > before

    def further(
        self, like: Sequence[np.ndarray], allowed: Callable[[list[np.ndarray]], list[np.ndarray]]
    ) -> Iterator[list[np.ndarray]]:
        """Inputs of such types on which branches run that have not run yet."""
        kept = 0
        for tried in range(BUDGET):
            if self.is_complete or kept == MOST:
                return
            rng = np.random.default_rng(tried)
            inputs = allowed([steered(x.shape, x.dtype, rng) for x in like])
            if self.run(inputs):
                kept += 1
                yield inputs


def steered(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    """Numbers near those of branches, of one sign, all of them the same, of any size."""
    draws: tuple[Callable[[], Any], ...] = (
        lambda: rng.integers(-2, 8, shape),
        lambda: np.full(shape, rng.choice([-3, -1, -0.5, 0, 0.5, 1, 2, 3, 4, 5, 7])),
        lambda: rng.standard_normal(shape) * 10 ** rng.uniform(-1, 2.5),
        lambda: rng.standard_normal(shape) + rng.choice([-5, -1, 1, 5]),
        lambda: (rng.random(shape) < rng.choice([0.1, 0.5, 0.9])) * rng.choice([-1, 1, 3]),
        lambda: abs(rng.standard_normal(shape)) * rng.choice([-1, 1]),
    )
    drawn = np.asarray(draws[rng.integers(len(draws))](), np.float64)
    if dtype.kind == "b":
        return np.asarray(drawn > 0)
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        drawn = np.clip(np.rint(drawn), info.min, info.max)
    return drawn.astype(dtype)
