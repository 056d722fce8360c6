"""Values without elements: nothing that reads them has to mind."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.verify.sessions import run


def split_then_turned(x):
    a, b, c = jnp.split(x, [2, 2], -2)
    return jnp.swapaxes(a, 0, 1), jnp.swapaxes(b, 0, 1), jnp.sin(c.T) * 2


def heads(x):
    """Parts that are turned alike, one of them empty."""
    parts = jnp.split(x.reshape(4, 6), [0, 2, 4], -1)
    return [jnp.sin(p.reshape(4, -1, 2).transpose(1, 0, 2)) for p in parts]


def cut(x):
    return jax.vmap(lambda row: lax.slice_in_dim(row, 2, 2))(x), x * 2


def no_turns(x):
    total, rows = lax.scan(lambda c, row: (c + row, row * c), x[0], x[:0])
    return total * 2, rows.T, lax.fori_loop(0, 0, lambda i, c: c + 1, x)


def carried(x):
    """An empty value goes around a loop."""
    (total, none), rows = lax.scan(
        lambda c, row: ((c[0] + row, c[1].T.T), jnp.concatenate([c[1], row])), (x[0], x[0, :0]), x
    )
    return total, none, rows


NAMED = (cut, no_turns, carried)


def assert_same(fn, specs, *arrays):
    export = converter.to_onnx(fn, specs)
    wanted = jax.tree.leaves(fn(*map(jnp.asarray, arrays)))
    for got, want in zip(run(export, list(arrays)).values(), wanted, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=4e-6, atol=4e-6)
    return export


@pytest.mark.parametrize("fn", (split_then_turned, heads, *NAMED), ids=lambda fn: fn.__name__)
def test_empty_values(fn):
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    assert_same(fn, [x], x)
    if fn in NAMED:
        assert_same(fn, [("N", 6)], x)


def test_inputs_and_parameters_without_elements():
    params = {"w": np.zeros((0, 3), np.float32), "b": np.ones(3, np.float32)}
    x = np.zeros((2, 0), np.float32)
    export = assert_same(lambda x: x @ params["w"] + params["b"], [x], x)
    assert not export.report.histogram.get("MatMul")
    explicit = converter.to_onnx(lambda p, x: x @ p["w"] + p["b"], [("N", 0)], params=params)
    (got,) = run(explicit, [x]).values()
    np.testing.assert_array_equal(got, np.ones((2, 3)))


def all_but_one(x):
    """Reshapes around a dimension that a name makes zero."""
    rows = x[1:]
    n, m = rows.shape[0], rows.shape[2]
    return rows.reshape(n, 4 * m), jnp.swapaxes(rows, 0, 1).reshape(2, 2, n, m)


@pytest.mark.parametrize("count", [1, 3])
def test_what_is_empty_for_some_sizes(count):
    x = np.random.default_rng(1).standard_normal((count, 4, 3)).astype(np.float32)
    assert_same(all_but_one, [("N", 4, "M")], x)
