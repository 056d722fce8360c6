"""Programs whose operands are arrays of one number, so that both ends of their range are known.

`public` has functions of such operands. The programs here compare them with special values.
"""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

from tests.conformance import DEFAULT, Case

X = np.array([[0.02, 0.31, 0.88], [1.0, 1.5, 7.25]], np.float32)
NUMBERS = (np.nan, np.inf, 0.0, -0.0, 3.0)


def compared(number_of_array: float) -> Callable[[Any], Any]:
    """Return a function that compares an array of one number with arrays of other numbers."""

    def fn(x: Any) -> Any:
        a, others = (
            jnp.full_like(x, number_of_array),
            [jnp.full_like(x, number) for number in NUMBERS],
        )
        pairs = [(a == b, a != b, a < b, a <= b, a > b, a >= b) for b in others]
        return [jnp.where(comparison, x, 0) for pair in pairs for comparison in pair]

    return fn


PROGRAMS = [Case(f"compared with {n}", compared(n), [X], tags=DEFAULT) for n in NUMBERS]
