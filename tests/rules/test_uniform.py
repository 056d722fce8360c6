"""Programs whose operands are arrays of one number, of which ranges are known at both ends."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as jsp
import numpy as np
import pytest
from jax.scipy.stats import nbinom

from tests.conformance import Case, assert_exports, cases

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


@cases([Case(name, fn, [X], opsets=(18, 23), tolerance=4) for name, fn in UNIFORM.items()], False)
def test_arrays_of_one_number(case: Case, opset: int) -> None:
    with np.errstate(divide="ignore", invalid="ignore"):
        assert_exports(case, opset)


@pytest.mark.parametrize("number", [np.nan, np.inf, 0.0, -0.0, 3.0])
@pytest.mark.parametrize("other", [np.nan, np.inf, 0.0, 3.0])
def test_two_numbers_compared(number: float, other: float) -> None:
    def compared(x: Any) -> Any:
        one, two = full(x, number), full(x, other)
        pairs = (one == two, one != two, one < two, one <= two, one > two, one >= two)
        return [jnp.where(each, x, 0) for each in pairs]

    assert_exports(Case("compared", compared, [X]))
