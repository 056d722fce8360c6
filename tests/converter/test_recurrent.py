"""Recurrent layers and what is nearly one, with their counts; `tests/frameworks/` has others."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import converter
from converter.ir import ops

T, B, D, H = 7, 3, 4, 5
X = np.random.default_rng(0).standard_normal((B, T, D)).astype(np.float32)
KEY = jax.random.key(0)
TURNED = {"Transpose": 2}
BACK = {"reverse": True, "keep_order": True, "return_carry": True}
LAYERS = {
    "mgu": (nn.RNN(nn.MGUCell(H)), {"GRU": 1, "Reshape": 1} | TURNED),
    "simple": (nn.RNN(nn.SimpleCell(H)), {"RNN": 1, "Reshape": 1} | TURNED),
    "lstm, reversed": (nn.RNN(nn.LSTMCell(H), **BACK), {"LSTM": 1, "Reshape": 3} | TURNED),
}


@pytest.mark.each("name", "opset")
@pytest.mark.parametrize("opset", [17, 22, 26])
@pytest.mark.parametrize("name", LAYERS)
def test_operators(name, opset):
    module, wanted = LAYERS[name]
    params = module.init(KEY, X)
    export = converter.to_onnx(module.apply, [("B", "T", D)], params=params, opset=opset)
    assert export.report.histogram == wanted, export.graph
    assert export.report.fused == {op: 1 for op in ("LSTM", "GRU", "RNN") if op in wanted}
    assert_right(export, jax.tree.leaves(module.apply(params, X)))


def assert_right(export, wanted):
    """In ONNX Runtime, with its optimiser and without: each round rounds a few times."""
    for level in ("all", "disabled"):
        got = converter.run(converter.session(export, level=level), [X]).values()
        for a, b in zip(got, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=2e-6)


def packed(step, gates, states=1, given=0):
    """A loop by hand over a cell whose gates are one product each with inputs and state."""
    rng = np.random.default_rng(2)
    w, r = (rng.standard_normal((n, gates * H)).astype(np.float32) / 2 for n in (D, H))

    def body(carry, x):
        new = step(carry, x, jnp.split(x @ w + carry[0] @ r, gates, -1))
        return new, new[given]

    return lambda x: lax.scan(body, (jnp.zeros((x.shape[0], H)),) * states, jnp.swapaxes(x, 0, 1))


def lstm(keep=jax.nn.sigmoid, norm=lambda z: z, given=0):
    def step(carry, x, gates):
        i, o, f, g = map(norm, gates)
        i = jax.nn.sigmoid(i)
        f = 1 - i if keep is None else keep(f)
        c = f * carry[1] + i * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    return packed(step, 4, 2, given)


def simple(after):
    return packed(lambda carry, x, gates: (after(jnp.tanh(gates[0]), carry[0]),), 1)


def normed(z):
    return (z - z.mean(-1, keepdims=True)) / (jnp.abs(z).max(-1, keepdims=True) + 1)


MISSES = {
    "coupled": (lstm(keep=None), "its cell is not a gate times itself"),
    "other activation": (lstm(keep=jnp.tanh), "different activations"),
    "layer norm": (lstm(norm=normed), "a gate is more than"),
    "leaky": (simple(lambda new, old: 0.5 * new + 0.5 * old), "no sum of gated parts"),
    "masked": (
        simple(lambda new, old: jnp.where(new[:, :1] > 0, new, old)),
        "a mask leaves its state",
    ),
    "every cell": (lstm(given=1), "its cell is wanted after each round"),
    "precise": (lstm(), None),
}
"""What is no cell of ONNX's, and what is said of it."""


@pytest.mark.each()
@pytest.mark.parametrize("name", MISSES)
def test_near_misses(name):
    fn, said = MISSES[name]
    export = converter.to_onnx(fn, [(B, T, D)], strict=said is None)
    assert export.report.histogram["Scan"] == 1
    reasons = [miss.reason for miss in export.report.near_misses]
    assert [said in reason for reason in reasons] == [True] if said else not reasons
    assert_right(export, jax.tree.leaves(fn(X)))


def loop_over(step, *widths):
    """A loop by hand over states of these widths, and a count of its rounds."""
    rng = np.random.default_rng(4)
    w, r = (rng.standard_normal((n, 2 * H)).astype(np.float32) / 2 for n in (D, H))

    def body(carry, row):
        *states, count = carry
        states, out = step(w, r, states, row, count)
        return (*states, count + 1), out

    def run(x):
        states = [jnp.zeros((x.shape[0], n)) for n in widths]
        return lax.scan(body, (*states, jnp.float32(0)), jnp.swapaxes(x, 0, 1))

    return run


def on_top(w, r, states, row, count):
    h = jnp.tanh(row @ w[:, :H] + states[0] @ r[:, :H])
    both = jnp.concatenate([jnp.sin(h), states[1]], -1)
    top = jax.nn.relu(both @ np.concatenate([r, np.tile(r, (2, 1))]))
    return [h, top], (top, h)


def counted(w, r, states, row, count):
    h = jnp.tanh(row @ w[:, :H] + states[0] @ r[:, :H])
    return [h], (h * count, row + count, r * 2)


@pytest.mark.full
@pytest.mark.parametrize(
    ("step", "widths", "wanted"),
    [(on_top, (H, 2 * H), {"RNN": 2, "Sin": 1}), (counted, (H,), {"RNN": 1})],
)
def test_what_is_around_a_cell(step, widths, wanted):
    """Before it and after it; only what counts rounds needs the loop still, without the cell."""
    fn = loop_over(step, *widths)
    export = converter.to_onnx(fn, [("B", "T", D)])
    assert wanted.items() <= export.report.histogram.items(), export.graph
    bodies = [body for node in export.graph.nodes for body in node.bodies.values()]
    assert [body.count(ops.tanh) for body in bodies] == [0]
    assert_right(export, jax.tree.leaves(fn(X)))


@pytest.mark.full
def test_gradients_keep_their_loops():
    """What the backward pass needs of each round no operator gives."""
    fn = jax.grad(lambda x: lstm()(x)[1].sum())
    export = converter.to_onnx(fn, [(B, T, D)])
    assert export.report.histogram["Scan"] == 2
    assert_right(export, [fn(X)])
