"""Without x64 JAX computes in 32 bits; a file takes the 64 that its specs say."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.verify.sessions import run

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("dtype", "onnx", "number", "wanted"),
    [
        (np.int64, "INT64", 2**40 + 5, 6),
        (np.uint64, "UINT64", 2**33 + 7, 8),
        (np.float64, "DOUBLE", 1e300, np.inf),
    ],
)
def test_beyond_32_bits(dtype, onnx, number, wanted):
    """Inputs keep their dtype; they wrap, or become infinite, as where JAX takes them."""
    export = converter.to_onnx(lambda x: jnp.add(x, 1), [(("B", 3), dtype)], verify=True)
    (given,) = export.model.graph.inputs
    assert str(given.dtype) == onnx
    (got,) = run(export, [np.full((2, 3), number, dtype)]).values()
    np.testing.assert_array_equal(got, np.full((2, 3), wanted))
    assert got.dtype.itemsize == 4


def test_token_ids():
    def embed(ids):
        return jnp.asarray(TABLE)[ids]

    ids = np.array([[3, 0, -1], [1, 1, 2]], np.int64)
    export = converter.to_onnx(embed, [ids])
    (got,) = run(export, [ids]).values()
    np.testing.assert_array_equal(got, TABLE[ids])
    assert export.report.histogram["Cast"] == 1


class Double(eqx.Module):
    w: np.ndarray

    def __call__(self, x):
        return jnp.dot(x, self.w)


def test_parameters_of_64_bits():
    converter.to_onnx(Double(np.arange(6.0).reshape(3, 2)), [(3,)], verify=True)
