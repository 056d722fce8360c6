"""A function evaluated step by step gives what JAX gives, and holds no more than it must."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from converter.verify.streaming_evaluation import evaluate_streaming


@jax.custom_jvp
def shifted(x, w):
    return jnp.tanh(x) + w


@shifted.defjvp
def _(primals, tangents):
    return shifted(*primals), tangents[0] + tangents[1]


@jax.custom_vjp
def scaled(x, w):
    return x * w


scaled.defvjp(lambda x, w: (x * w, (x, w)), lambda kept, g: (g * kept[1], g * kept[0]))


def several(p, x):
    """Calls of all kinds, a leaf that is used twice, one that is not, one that is returned."""
    y = jax.jit(lambda x, w: x @ w)(x, p["square"]) + p["row"]
    y = scaled(shifted(y, p["row"]), p["row"])
    y, sums = jax.lax.scan(lambda c, w: (c + w, c.sum()), y, p["square"])
    y = jax.lax.while_loop(lambda c: c.max() < 9, lambda c: 2 * c + 1, y)
    y = jax.lax.cond(y.sum() > 0, lambda y: y * p["row"], lambda y: y, y)
    y = jax.checkpoint(lambda y: jnp.sin(y) @ p["square"])(y)
    return {"y": jax.vmap(lambda row: row + p["row"])(y), "sums": sums, "leaf": p["row"]}, 3.0, x


def test_every_kind_of_call():
    rng = np.random.default_rng(0)
    values = {"square": rng.random((5, 5), np.float32), "row": rng.random(5, np.float32)}
    params = jax.eval_shape(lambda: values | {"unused": np.zeros(3, np.float32)})
    x = rng.random((3, 5), np.float32)
    got = evaluate_streaming(several, params, values, x)
    wanted = several(values, x)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-5), got, wanted)


def test_one_block_at_a_time():
    """When a leaf is read, JAX holds no leaves but those of its own block."""
    jax.clear_caches()
    size, depth = 128, 6
    rng = np.random.default_rng(0)
    values = {
        f"{number}.{name}": rng.standard_normal((size, size), np.float32) / size**0.5
        for number in range(depth)
        for name in ("in", "out")
    }
    tree = [{name: values[f"{number}.{name}"] for name in ("in", "out")} for number in range(depth)]

    @jax.jit
    def block(p, x):
        return x + jnp.tanh(x @ p["in"]) @ p["out"]

    def network(params, x):
        for each in params:
            x = jax.vmap(block, in_axes=(None, 0))(each, x)
        return x

    def living():
        return sum(array.nbytes for array in jax.live_arrays())

    held = []

    class Watched(dict):
        def __getitem__(self, name):
            held.append(living() - before)
            return super().__getitem__(name)

    x = jnp.asarray(rng.standard_normal((3, size), np.float32))
    before = living()
    got = evaluate_streaming(network, jax.eval_shape(lambda: tree), Watched(values), x)
    assert len(held) == len(values)
    assert max(held) < 4 * size * size + 10 * x.nbytes
    np.testing.assert_allclose(got, network(tree, x), rtol=1e-5, atol=1e-5)
