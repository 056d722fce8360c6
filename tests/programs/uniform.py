"""Programs whose operands are arrays of one number, of which ranges are known at both ends."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
from jax.scipy.stats import nbinom

from tests.conformance import DEFAULT, Case

X = np.array([[0.02, 0.31, 0.88], [1.0, 1.5, 7.25]], np.float32)


def full(x: Any, number: float) -> Any:
    return jnp.full_like(x, number)


def slope(fn: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return jax.grad(lambda x: fn(x).sum())


UNIFORM: dict[str, Callable[[Any], Any]] = {
    "ne": lambda x: jnp.where(full(x, 3.0) != 0.0, full(x, 7.0), x),
    "eq": lambda x: jnp.where(full(x, 0.0) == full(x, 0.0), x, 1.0),
    "exp1": jsp.exp1,
    "slope of exp1": slope(jsp.exp1),
    "nbinom": lambda x: nbinom.logpmf(full(x, 3.0), full(x, 2.0), full(x, 0.25)) + x,
    **{
        f"{fn.__name__} of {number}": lambda x, fn=fn, number=number: fn(full(x, number), x)
        for fn in (jsp.xlogy, jsp.xlog1py, jsp.rel_entr)
        for number in (0.0, 2.0)
    },
    **{
        f"entr of {number}": lambda x, number=number: jsp.entr(full(x, number)) + x
        for number in (0.0, 0.5, -1.0)
    },
}


NUMBERS = (np.nan, np.inf, 0.0, -0.0, 3.0)


def compared(one: float) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        a, others = full(x, one), [full(x, number) for number in NUMBERS]
        pairs = [(a == b, a != b, a < b, a <= b, a > b, a >= b) for b in others]
        return [jnp.where(each, x, 0) for pair in pairs for each in pair]

    return fn


PROGRAMS = [
    *(Case(name, fn, [X], tolerance=8, tags=DEFAULT) for name, fn in UNIFORM.items()),
    *(Case(f"compared with {n}", compared(n), [X], tags=DEFAULT) for n in NUMBERS),
]
