"""Products of groups of rows and of scaled blocks, and the high half of an integer product."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter

RNG = np.random.default_rng(9)
SIZES = np.array([3, 0, 4, 2], np.int32)  # two rows are left over


def drawn(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def ragged(contract, batch, axis, groups=()):
    numbers = lax.RaggedDotDimensionNumbers((contract, batch), [axis], list(groups))
    return lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, numbers)


PLAIN = (drawn(11, 5), drawn(4, 5, 6), SIZES)
CASES = {
    "rows": (lax.ragged_dot, PLAIN),
    "contracted": (ragged(((0,), (0,)), ((), ()), 0), (drawn(11, 5), drawn(11, 6), SIZES)),
    "batch": (ragged(((2,), (1,)), ((0,), (0,)), 0), (drawn(11, 5, 3), drawn(11, 3, 6), SIZES)),
    "sizes for each": (
        ragged(((3,), (2,)), ((1,), (1,)), 2, [0]),
        (drawn(7, 2, 11, 5), drawn(4, 2, 5, 6), RNG.integers(0, 4, (2, 7, 4), np.int32)),
    ),
    "contracted, sizes for each": (
        ragged(((1, 2), (0, 2)), ((0,), (1,)), 2),
        (drawn(2, 3, 11, 5), drawn(3, 2, 11, 6), RNG.integers(0, 4, (2, 3, 4), np.int32)),
    ),
    "mapped": (
        jax.vmap(lax.ragged_dot),
        (drawn(2, 11, 5), drawn(2, 4, 5, 6), np.stack([SIZES, SIZES[::-1]])),
    ),
    "gradient": (jax.grad(lambda x, y, n: jnp.sin(lax.ragged_dot(x, y, n)).sum(), (0, 1)), PLAIN),
    "scaled": (
        lambda x, y, s, t: lax.scaled_dot(
            x, y, lhs_scale=s, rhs_scale=t, preferred_element_type=np.float32
        ),
        (drawn(3, 8), drawn(8, 5), drawn(3, 2), drawn(2, 5)),
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_products(name):
    fn, inputs = CASES[name]
    verdict = converter.check(converter.to_onnx(fn, inputs), fn, inputs)
    assert verdict.passed, verdict.differences


@pytest.mark.full
def test_scaled_matrices():
    """JAX runs these on NVIDIA's devices only; their numbers are by their definition."""
    inputs = [drawn(2, 3, 64), drawn(2, 5, 64), drawn(2, 3, 2), drawn(2, 5, 2)]
    export = converter.to_onnx(jax.nn.scaled_matmul, inputs)
    (got,) = converter.run(export, inputs).values()
    a, b, a_scale, b_scale = (x.astype(np.float64) for x in inputs)
    a, b = a * np.repeat(a_scale, 32, 2), b * np.repeat(b_scale, 32, 2)
    np.testing.assert_allclose(got, np.einsum("bmk,bnk->bmn", a, b), rtol=1e-5, atol=1e-4)


@pytest.mark.full
@pytest.mark.parametrize("dtype", ["int32", "uint32", "int8", "uint16"])
def test_high_halves(dtype):
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, 50, dtype=np.int64).astype(dtype)
    x[:4] = [info.max, info.min, info.max, 1]
    y = x[::-1].copy()
    y[:2] = [info.max, info.min]
    (got,) = converter.run(converter.to_onnx(lax.mulhi, [x, y]), [x, y]).values()
    wide = x.astype(object) * y.astype(object)
    np.testing.assert_array_equal(got, (wide >> info.bits).astype(dtype))
