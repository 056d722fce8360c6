"""Record which branches of a program run, independently of the converter's own record.

Calls of `lax.cond`, `lax.switch` and loops in the source are replaced by functions that record the
branch, or whether a loop has no turn, one turn or more.
"""

import itertools
import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.forms.errors import ANY
from tests.forms.program import Program, executed, parameters, source

CALL = re.compile(r"\blax\.(cond|switch|while_loop|fori_loop)\(")

Branch = tuple[int, int]
"""The number of a call in the source, and that of one of its branches."""


class Watch:
    """Functions in place of `lax`'s that record the branches that run."""

    def __init__(self) -> None:
        self.known: set[Branch] = set()
        self.taken: set[Branch] = set()

    def _note(self, call: int, index: Any) -> None:
        self.taken |= {(call, int(i)) for i in np.unique(index)}

    def _watch(self, call: int, count: int, index: Any) -> None:
        if isinstance(index, (int, np.generic)):  # the branch does not depend on inputs
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
    """The branches of a program that have run."""

    def __init__(self, program: Program) -> None:
        self._watch = Watch()
        numbers = itertools.count()
        code = CALL.sub(lambda m: f"watch.{m[1]}({next(numbers)}, ", source(program))
        fn, params = executed(code, watch=self._watch)["fn"], parameters(program)
        self._call = jax.jit(fn if params is None else partial(fn, params))
        self._runs = next(numbers) > 0

    @property
    def known(self) -> int:
        return len(self._watch.known)

    @property
    def taken(self) -> int:
        return len(self._watch.taken)

    def run(self, inputs: Sequence[Any]) -> None:
        """Run the program and record its branches."""
        if not self._runs:
            return
        try:
            jax.block_until_ready(self._call(*inputs))
            jax.effects_barrier()
        except ANY:  # JAX allows no callback at this place of the program
            self._runs = False
