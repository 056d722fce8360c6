"""Recurrent layers, and loops that are nearly recurrent layers. `tests/frameworks/` has more
layers."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, Case, drawn

D, H = 4, 5
OPEN, CLOSED = (("B", "N", D),), ((3, 7, D),)
TRANSPOSES = {"Transpose": 2}
LOOP, NO_CELL = {"Scan": 1}, {"LSTM": 0, "GRU": 0, "RNN": 0}
BACK = {"reverse": True, "keep_order": True, "return_carry": True}


def layer(name, module, ops, opsets=(17, 22, 26)):
    params = drawn(lambda key: module.init(key, np.zeros((3, 7, D), np.float32)))
    return Case(
        name, module.apply, OPEN, opsets, {**TRANSPOSES, **ops}, params=params, tags=DEFAULT
    )


def packed(step, gates, states=1, output_index=0):
    """Return a loop over a cell whose gates are one product with the inputs and one with the
    state."""
    rng = np.random.default_rng(2)
    w, r = (rng.standard_normal((n, gates * H)).astype(np.float32) / 2 for n in (D, H))

    def body(carry, x):
        new_states = step(carry, x, jnp.split(x @ w + carry[0] @ r, gates, -1))
        return new_states, new_states[output_index]

    return lambda x: lax.scan(body, (jnp.zeros((x.shape[0], H)),) * states, jnp.swapaxes(x, 0, 1))


def lstm(keep=jax.nn.sigmoid, norm=lambda z: z, output_index=0):
    def step(carry, x, gates):
        i, o, f, g = map(norm, gates)
        i = jax.nn.sigmoid(i)
        f = 1 - i if keep is None else keep(f)
        c = f * carry[1] + i * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    return packed(step, 4, 2, output_index)


def of_two(x, y):
    """Run a loop over two inputs with separate weights."""
    rng = np.random.default_rng(3)
    w, v, r = (rng.standard_normal((n, H)).astype(np.float32) / 2 for n in (D, D - 1, H))

    def body(h, row):
        h = jnp.tanh(row[0] @ w + row[1] @ v + h @ r)
        return h, h

    rows = jnp.swapaxes(x, 0, 1), jnp.swapaxes(y, 0, 1)
    return lax.scan(body, jnp.zeros((x.shape[0], H)), rows)


def from_the_last(x):
    """Run a loop over the first axis, from its last element to its second."""
    rng = np.random.default_rng(5)
    w, r = (rng.standard_normal((n, H)).astype(np.float32) / 2 for n in (D, H))
    first, rounds = jnp.zeros((7, H)), x[1:][::-1]
    return lax.scan(lambda h, row: (jnp.tanh(row @ w + h @ r),) * 2, first, rounds)


def computed(x):
    """Run a loop whose inputs are computed from the scanned rows by operations of every kind that
    can run for all rounds at once."""
    rng = np.random.default_rng(11)
    w, r = (rng.standard_normal((n, H)).astype(np.float32) / 2 for n in (D, H))
    scale = rng.standard_normal((2, 2, 2)).astype(np.float32)

    def body(h, row):
        squares = jnp.moveaxis(row.reshape(-1, 2, 2), 1, 2) * jnp.arange(1.0, 3)
        products = jnp.einsum("bij,ijk->bik", squares, scale) + squares.max(1)[:, :, None]
        ends = jnp.concatenate([products[:, 1:], jnp.full((x.shape[0], 1, 2), 0.5)], 1)
        h = jnp.tanh(jax.nn.softmax(ends.reshape(-1, D), 1) @ w - h @ r)
        return h, h

    return lax.scan(body, jnp.zeros((x.shape[0], H)), jnp.swapaxes(x, 0, 1))


def added(x):
    """Run a loop whose inputs are added to the product of the state, without weights."""
    r = np.random.default_rng(7).standard_normal((H, H)).astype(np.float32) / 2
    return lax.scan(
        lambda h, row: (jnp.tanh(row + h @ r),) * 2,
        jnp.zeros((x.shape[0], H)),
        jnp.swapaxes(x, 0, 1),
    )


def gru(inner, complement=False, gates=(jax.nn.sigmoid,) * 2):
    """Return a loop over a GRU cell. ``inner`` computes the state's part of the new state, from the
    state, the reset gate and a matrix. With ``complement``, the update gate is the share of the new
    state instead of the old one. ``gates`` are the functions of the update gate and of the reset
    gate."""
    rng = np.random.default_rng(6)
    w, r = (rng.standard_normal((3, n, H)).astype(np.float32) / 2 for n in (D, H))

    def body(h, row):
        update, reset = (gate(row @ w[i] + h @ r[i]) for i, gate in enumerate(gates))
        new = jnp.tanh(row @ w[2] + inner(h, reset, r[2]))
        old_share, new_share = (1 - update, update) if complement else (update, 1 - update)
        h = old_share * h + new_share * new
        return h, h

    return lambda x: lax.scan(body, jnp.zeros((7, H)), x)


def peephole(carry, x, gates):
    """Compute an LSTM whose gates read its cell [Gers & Schmidhuber, 2000]."""
    i, o, f, g = gates
    i, f = jax.nn.sigmoid(i + 0.5 * carry[1]), jax.nn.sigmoid(f - 0.5 * carry[1])
    c = f * carry[1] + i * jnp.tanh(g)
    h = jax.nn.sigmoid(o + 0.25 * c) * jnp.tanh(c)
    return h, c


def exponential(carry, x, gates):
    """Compute an LSTM with exponential gates and a normalizer [Beck et al., arXiv:2405.04517]."""
    i, o, f, g = gates
    i, f = jnp.exp(jnp.minimum(i, 1)), jax.nn.sigmoid(f)
    c, n = f * carry[1] + i * jnp.tanh(g), f * carry[2] + i
    return jax.nn.sigmoid(o) * c / (n + 1), c, n


def linear_candidate(carry, x, gates):
    f, g = gates
    f = jax.nn.sigmoid(f)
    return (f * carry[0] + (1 - f) * g,)


def lstm_by_index(x):
    """Run an LSTM whose inputs are read by their index."""
    rng = np.random.default_rng(8)
    w, r = (rng.standard_normal((n, 4 * H)).astype(np.float32) / 2 for n in (D, H))

    def body(i, carry):
        i, o, f, g = jnp.split(x[:, i] @ w + carry[0] @ r, 4, -1)
        c = jax.nn.sigmoid(f) * carry[1] + jax.nn.sigmoid(i) * jnp.tanh(g)
        return jax.nn.sigmoid(o) * jnp.tanh(c), c

    return lax.fori_loop(0, x.shape[1], body, (jnp.zeros((x.shape[0], H)),) * 2)


def sum_of_gates(gate, old):
    """Return a sum of nine products of a gate and the old state."""
    return sum(jax.nn.sigmoid(gate + i) * jnp.roll(old, i, -1) for i in range(9)) / 9


def of_state(function):
    """Return a loop over a cell with another function than an activation of a known cell."""
    return packed(lambda carry, x, gates: (function(gates[0], carry[0]),), 1)


def simple(after):
    return packed(lambda carry, x, gates: (after(jnp.tanh(gates[0]), carry[0]),), 1)


def simple_of_sums(count):
    """Return a loop over a simple cell whose gate is this number of nested sums."""
    rng = np.random.default_rng(9)
    w, r = (rng.standard_normal(shape).astype(np.float32) / 4 for shape in ((count, D, H), (H, H)))

    def body(h, row):
        gate = h @ r
        for index, matrix in enumerate(w):
            gate = gate + (row if index % 2 else row[:, ::-1]) @ matrix
        h = jnp.tanh(gate)
        return h, h

    return lambda x: lax.scan(body, jnp.zeros((7, H)), x)


def normed(z):
    return (z - z.mean(-1, keepdims=True)) / (jnp.abs(z).max(-1, keepdims=True) + 1)


def loop_over(step, *widths):
    """Return a loop over states of these widths and a count of its rounds."""
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


def with_a_count(w, r, states, row, count):
    h = jnp.tanh(row @ w[:, :H] + states[0] @ r[:, :H])
    return [h], (h * count, row + count, r * 2)


def miss(name, fn, said="", strict=False, ops=LOOP):
    """Return a case that is not fused, with the reason of its near miss. It stays a loop unless
    ``ops`` has other operators, because loops of few nodes are unrolled."""
    return Case(name, fn, CLOSED, ops=ops, said=said, strict=strict, tags=DEFAULT)


PROGRAMS = [
    layer("mgu", nn.RNN(nn.MGUCell(H)), {"GRU": 1, "Reshape": 1}),
    layer("simple", nn.RNN(nn.SimpleCell(H)), {"RNN": 1, "Reshape": 1}),
    layer("lstm, reversed", nn.RNN(nn.LSTMCell(H), **BACK), {"LSTM": 1, "Reshape": 3}),
    Case("of two inputs", of_two, (("B", 7, D), ("B", 7, D - 1)), ops={"RNN": 1, "Concat": 1},
         tags=DEFAULT),
    Case("from the last", from_the_last, CLOSED, ops={"RNN": 1, "Scan": 0}, tags=DEFAULT),
    Case("computed inputs", computed, CLOSED, ops={"RNN": 1, "Scan": 0}, tags=DEFAULT),
    *(Case(f"inputs of {width} added", added, ((3, 7, width),), ops={"RNN": 1, "Scan": 0},
           tags=DEFAULT) for width in (1, H)),
    *(Case(f"gru, reset {name}", gru(inner), CLOSED, ops={"GRU": 1, "Scan": 0}, tags=DEFAULT)
      for name, inner in {"first": lambda h, reset, r: (reset * h) @ r,
                          "last": lambda h, reset, r: reset * (h @ r + 0.5)}.items()),
    Case("gru, complement of its update gate",
         gru(lambda h, reset, r: (reset * h) @ r, complement=True), CLOSED,
         ops={"GRU": 1, "Scan": 0}, tags=DEFAULT),
    Case("of 12 nested sums", simple_of_sums(12), CLOSED, ops={"RNN": 1, "Scan": 0}, tags=DEFAULT),
    miss("of 13 nested sums", simple_of_sums(13), "it has a term of add"),
    miss("without a reset gate", gru(lambda h, reset, r: h @ r), "not one gate resets its state",
         ops=NO_CELL),
    *(miss(f"gru, {name}", gru(lambda h, reset, r: (reset * h) @ r, **options), said)
      for name, options, said in (
        ("sine of its update gate", {"gates": (jnp.sin, jax.nn.sigmoid)}, "is computed by sin"),
        ("sine of its reset gate", {"gates": (jax.nn.sigmoid, jnp.sin)}, "a gate is more than"),
        ("two activations", {"gates": (jax.nn.sigmoid, jnp.tanh)}, "different activations"),
        ("complement of tanh", {"gates": (jnp.tanh,) * 2, "complement": True}, "one less tanh is"),
      )),
    miss("partly reset", gru(lambda h, reset, r: reset * (h @ r) + h @ r[::-1]), "on some of what"),
    miss("only biases reset", gru(lambda h, reset, r: reset * 0.5 + h @ r), "on some of what"),
    miss("coupled", lstm(keep=None), "its cell is not a gate times itself"),
    miss("other activation", lstm(keep=jnp.tanh), "different activations"),
    miss("layer norm", lstm(norm=normed), "a gate is more than"),
    miss("leaky", simple(lambda new, old: 0.5 * new + 0.5 * old), "no sum of gated parts"),
    miss("squared", simple(lambda new, old: new * new * 0.5 + old * 0.5), "has powers"),
    miss("of many terms",
         simple(lambda new, old: (new + old + 1) * (jnp.sin(new) - old * 0.5 + 2)), "has powers"),
    miss("residual", simple(lambda new, old: new + old), "no sum of gated parts", ops=NO_CELL),
    miss("scaled", simple(lambda new, old: new * jnp.arange(1.0, H + 1)),
         "no sum of gated parts", ops=NO_CELL),
    miss("peephole", packed(peephole, 4, 2), "it has a term of mul"),
    miss("exponential", packed(exponential, 4, 3), "has powers or quotients"),
    miss("linear candidate", packed(linear_candidate, 2), "no sum of gated parts"),
    miss("linear", of_state(lambda gate, old: gate), "its state has no activation",
         ops=NO_CELL),
    miss("of gelu", of_state(lambda gate, old: jax.nn.gelu(gate)), "computed by gelu",
         ops=NO_CELL),
    miss("of soft sign", of_state(lambda gate, old: jax.nn.soft_sign(gate)), "by soft_sign",
         ops=NO_CELL),
    miss("of nine terms", of_state(sum_of_gates), "no sum of gated parts"),
    miss("by index", lstm_by_index, "its loop scans no inputs"),
    Case("bfloat16", lstm(), (((3, 7, D), jnp.bfloat16),), ops=NO_CELL,
         said="does not take its dtypes", tags=DEFAULT),
    miss("masked", simple(lambda new, old: jnp.where(new[:, :1] > 0, new, old)),
         "a mask leaves its state"),
    miss("every cell", lstm(output_index=1), "its cell is wanted after each round"),
    miss("precise", lstm(), strict=True),
    # Other nodes are before and after a cell. A count of rounds needs the loop, but not the cell.
    Case("on top", loop_over(on_top, H, 2 * H), OPEN, ops={"RNN": 2, "Sin": 1, "Tanh": 0}),
    Case("counted", loop_over(with_a_count, H), OPEN, ops={"RNN": 1, "Tanh": 0}),
    # No operator returns the values of each round that the backward pass needs.
    Case("gradient", jax.grad(lambda x: lstm()(x)[1].sum()), CLOSED, ops={"Scan": 2}),
]  # fmt: skip
