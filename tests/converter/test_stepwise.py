"""Streaming evaluation, compared with JAX in its numbers, and its memory.

Only the parameters of the current step are in memory.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from converter.verify.streaming_evaluation import evaluate_streaming


@jax.custom_jvp
def jvp_shift(x, w):
    return jnp.tanh(x) + w


@jvp_shift.defjvp
def _(primals, tangents):
    return jvp_shift(*primals), tangents[0] + tangents[1]


@jax.custom_vjp
def vjp_scale(x, w):
    return x * w


vjp_scale.defvjp(
    lambda x, w: (x * w, (x, w)), lambda residuals, g: (g * residuals[1], g * residuals[0])
)


def all_calls(p, x):
    """Compute with all kinds of calls.

    One leaf of the parameters is used repeatedly, one is not used, and one is returned.
    """
    y = jax.jit(lambda x, w: x @ w)(x, p["square"]) + p["row"]
    y = vjp_scale(jvp_shift(y, p["row"]), p["row"])
    y, sums = jax.lax.scan(lambda c, w: (c + w, c.sum()), y, p["square"])
    y = jax.lax.while_loop(lambda c: c.max() < 9, lambda c: 2 * c + 1, y)
    y = jax.lax.cond(y.sum() > 0, lambda y: y * p["row"], lambda y: y, y)
    y = jax.checkpoint(lambda y: jnp.sin(y) @ p["square"])(y)
    return {"y": jax.vmap(lambda row: row + p["row"])(y), "sums": sums, "leaf": p["row"]}, 3.0, x


def test_all_kinds_of_calls_agree_with_jax():
    rng = np.random.default_rng(0)
    values = {"square": rng.random((5, 5), np.float32), "row": rng.random(5, np.float32)}
    params = jax.eval_shape(lambda: values | {"unused": np.zeros(3, np.float32)})
    x = rng.random((3, 5), np.float32)
    actual = evaluate_streaming(all_calls, params, values, x)
    expected = all_calls(values, x)
    assert jax.tree.structure(actual) == jax.tree.structure(expected)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), actual, expected)


def test_one_block_of_parameters_is_in_memory():
    """When a leaf is read, JAX holds only the leaves of the same block."""
    jax.clear_caches()
    size, depth = 128, 6
    rng = np.random.default_rng(0)
    values = {
        f"{index}.{name}": rng.standard_normal((size, size), np.float32) / size**0.5
        for index in range(depth)
        for name in ("in", "out")
    }
    tree = [{name: values[f"{index}.{name}"] for name in ("in", "out")} for index in range(depth)]

    @jax.jit
    def block(p, x):
        return x + jnp.tanh(x @ p["in"]) @ p["out"]

    def network(params, x):
        for block_params in params:
            x = jax.vmap(block, in_axes=(None, 0))(block_params, x)
        return x

    def live_bytes():
        return sum(array.nbytes for array in jax.live_arrays())

    bytes_at_reads = []

    class WatchedParams(dict):
        def __getitem__(self, name):
            bytes_at_reads.append(live_bytes() - before)
            return super().__getitem__(name)

    x = jnp.asarray(rng.standard_normal((3, size), np.float32))
    before = live_bytes()
    actual = evaluate_streaming(network, jax.eval_shape(lambda: tree), WatchedParams(values), x)
    assert len(bytes_at_reads) == len(values)
    assert max(bytes_at_reads) < 4 * size * size + 10 * x.nbytes
    np.testing.assert_allclose(actual, network(tree, x), rtol=1e-5, atol=1e-5)
