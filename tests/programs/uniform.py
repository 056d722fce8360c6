"""Programs whose operands are arrays of one number, of which ranges are known at both ends.

`public` has its functions of such operands; here is what compares them at the edges.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.conformance import DEFAULT, Case

X = np.array([[0.02, 0.31, 0.88], [1.0, 1.5, 7.25]], np.float32)
NUMBERS = (np.nan, np.inf, 0.0, -0.0, 3.0)


def compared(one: float) -> Callable[[Any], Any]:
    def fn(x: Any) -> Any:
        a, others = jnp.full_like(x, one), [jnp.full_like(x, number) for number in NUMBERS]
        pairs = [(a == b, a != b, a < b, a <= b, a > b, a >= b) for b in others]
        return [jnp.where(each, x, 0) for pair in pairs for each in pair]

    return fn


PROGRAMS = [Case(f"compared with {n}", compared(n), [X], tags=DEFAULT) for n in NUMBERS]
