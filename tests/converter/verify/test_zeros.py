"""Signs of zeros that verification accepts or rejects."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from tests.tiers import default_rows


def multiply_in_loop(x):
    return lax.scan(lambda state, _: (state @ jnp.ones((3, 3)), 0), x, length=60)[0]


ZEROS = {
    "sum": lambda x: 1 / jnp.sum(x),
    "sign of a sum": lambda x: jnp.signbit(jnp.einsum("b,bc->b", x - 1, jnp.ceil(x)[:, None])),
    "cumsum": lambda x: 1 / jnp.cumsum(x),
    "product": lambda x: 1 / (x @ jnp.ones((3, 2))),
    "largest of a product": lambda x: lax.top_k(x @ jnp.tile(jnp.float32([1, -1]), (3, 1)), 1)[1],
    "convolution": lambda x: 1 / lax.conv(x[None, None], jnp.ones((2, 1, 1)), (1,), "VALID"),
    "product in a loop": lambda x: 1 / multiply_in_loop(x),
    "reduce_window": lambda x: 1 / lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "SAME"),
    "max": lambda x: 1 / jnp.maximum(x, 0.0),
    "sign": lambda x: 1 / jnp.sign(x),
    "round": lambda x: 1 / jnp.round(x),
    "where": lambda x: 1 / jnp.where(x == 0, x, x + 1),
}


@pytest.mark.parametrize(
    "name",
    default_rows(
        *(ZEROS, "sum", "sign of a sum", "product", "product in a loop", "largest of a product"),
        *("convolution", "reduce_window", "max", "round"),
    ),
)
def test_a_zero_may_have_either_sign(name):
    """A zero of these operations may have either sign, so a quotient may be either infinity.

    `docs/exactness.md` lists the operations.
    """
    fn = ZEROS[name]
    export = converter.to_onnx(fn, [(3,)])
    for x in ([-0.0, -0.0, -0.0], [-0.3, -0.2, -0.0]):
        assert converter.check(export, fn, [np.array(x, np.float32)]).passed


SUMS = {
    "sum": lambda x: jnp.sum(x),
    "cumsum": lambda x: jnp.cumsum(x),
    "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2,), (1,), "SAME"),
    "product": lambda x: x @ jnp.ones((3, 2)),
    "convolution": lambda x: lax.conv(x[None, None], jnp.ones((2, 1, 1)), (1,), "VALID"),
    "product in a loop": multiply_in_loop,
}


@pytest.mark.parametrize("name", SUMS)
def test_a_sum_of_positive_zeros_is_positive(name):
    """Only zeros differ between the right and the wrong file."""

    def divide(x):
        return 1 / SUMS[name](x)

    def divide_by_negative_zeros(x):
        quotient = divide(x)
        return jnp.where(jnp.isinf(quotient), -jnp.inf, quotient)

    right, wrong = (
        converter.to_onnx(fn, [(3,)]).model for fn in (divide, divide_by_negative_zeros)
    )
    for x in ([0, 0, 0], [0, -0.0, -0.0]):
        x = np.array(x, np.float32)
        assert converter.check(right, divide, [x]).passed
        assert not converter.check(wrong, divide, [x]).passed
