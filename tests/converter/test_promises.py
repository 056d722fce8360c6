"""Indices that were promised to be in bounds and are not: XLA clips a read and drops a write.

JAX leaves it open; we do as XLA where the indices are known and where windows are read.
"""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run
from tests.conformance import Case, assert_exports, cases

X = np.arange(15, dtype=np.float32).reshape(5, 3)

KNOWN = {
    "too large": jnp.array([7]),
    "a run of them": jnp.array([5, 6, 7]),
    "beyond the start": jnp.array([-7, 2]),
    "two by two": jnp.array([[-9, 4], [5, 0]]),
}


def assert_as_jax(fn, *inputs):
    (got,) = run(converter.to_onnx(fn, inputs), inputs).values()
    np.testing.assert_array_equal(got, fn(*map(jnp.asarray, inputs)))


@pytest.mark.parametrize("name", KNOWN)
def test_known_indices(name):
    """Some gave a file whose result had another shape than it said."""
    assert_as_jax(lambda x: x[KNOWN[name]], X)


@pytest.mark.parametrize("way", ["set", "add", "max"])
def test_known_indices_that_are_written(way):
    def fn(x, y):
        return getattr(x.at[jnp.array([1, 9])], way)(y, mode="promise_in_bounds")

    assert_as_jax(fn, X, -X[:2] - 1)


def windows(sizes: tuple[int, ...]):
    """Windows that start where index vectors say, in the axes 1 and 2."""
    numbers = lax.GatherDimensionNumbers((2, 3, 4), (), (1, 2))
    return lambda x, i: lax.gather(x, i, numbers, sizes)


PLACES = np.array([[[0, 1], [-1, 4], [9, 2], [2147483647, -3]]], np.int32)


@cases(
    [
        Case("one wide", windows((4, 1, 3)), ((4, 5, 6), PLACES)),
        Case("whole", windows((4, 5, 6)), ((4, 5, 6), PLACES)),
        Case("named", windows((2, 2, 3)), ((4, 5, "3*W"), PLACES)),
    ]
)
def test_windows_are_moved_inside(case, opset):
    """ONNX counts a negative index from the end, and refuses what reaches beyond it."""
    assert_exports(case, opset)
