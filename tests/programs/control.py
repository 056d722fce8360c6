"""``cond``, ``while`` and ``scan``: nested graphs that read the values around them."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.conformance import DEFAULT, JUDGES, Case

X, LONG = (3, 4), (20, 4)
INDEX = [np.array(i, np.int32) for i in (-3, 2, 9)]
BRANCHES = [lambda x: x + 1, jnp.sin, lambda x: x - x.sum(), lambda x: x * 0 + 2]


MATRIX = np.random.default_rng(0).standard_normal((3, 3)).astype(np.float32)


def newton(x, steps):
    return lax.fori_loop(0, steps, lambda _, y: 0.5 * (y + x / y), jnp.ones_like(x))


def recurrence(x):
    return lax.scan(lambda c, v: (jnp.tanh(c + v), (c - v, c.sum())), jnp.zeros(x.shape[1]), x)


def linear_state(x):
    def step(state, row):
        state = state * 0.5 + row
        return state, jax.nn.softmax(state @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def nonlinear_state(x):
    def step(state, row):
        state = jnp.tanh(state @ MATRIX + row)
        return state, jax.nn.softmax(state @ MATRIX) * row.sum()

    return lax.scan(step, jnp.zeros(3), x)


def counting_state(x):
    def step(state, row):
        n, total = state
        return (n + 2, total * 0.5 + row * n), n

    return lax.scan(step, (jnp.int32(3), jnp.zeros(3)), x, reverse=True)


def unread_state(x):
    def step(state, row):
        y, z, w = state
        return (y + row, z * y, w), None

    return lax.scan(step, (jnp.zeros(3), jnp.ones(3), x[0]), x)[0][::2]


def vmapped_while(x):
    return jax.vmap(
        lambda row: lax.while_loop(lambda s: s.max() < 9, lambda s: s * 1.5 + 1, jnp.abs(row))
    )(x)


def nested(x):
    def row_of(row):
        return lax.scan(lambda c, y: (c * 0.5 + y, c), 0.0, jnp.exp(row))[1]

    return lax.map(row_of, x)


def decaying_state(x, reverse=False):
    return lax.scan(lambda y, row: (y * 0.5 + row, y), x[0], x, reverse=reverse)


def integer_sums(x):
    return lax.scan(lambda y, row: (y + row, y * 2), jnp.int32(3), jnp.int32(x[:, 0] * 9))


def backtrace(x):
    """Follow chosen indices backwards; they are known to be within bounds."""
    back = jnp.argmax(x[:, None] * MATRIX, -1)
    return lax.scan(lambda at, row: (row[at], at), jnp.argmax(x[0]), back, reverse=True)[1]


def search(x):
    """Advance an index that the loop's condition keeps below a size."""
    return lax.while_loop(lambda i: (i < 4) & (x[i, 0] < 0), lambda i: i + 1, 0)


def mapped(x):
    return lax.map(lambda row: jnp.tanh(row) @ MATRIX, x)


LOOPS = {
    "map": mapped,
    "map of loops": nested,
    "after the loop": linear_state,
    "after a loop that is not linear": nonlinear_state,
    "a state that counts": counting_state,
    "a state that nobody reads": unread_state,
    "lanes": vmapped_while,
    "a state that is scaled": decaying_state,
    "from the last on": partial(decaying_state, reverse=True),
    "integers that are added up": integer_sums,
    "a path": backtrace,
    "a search": search,
}
"""Loops, some of whose steps do not depend on the step before. `tests/converter/test_loops.py`
counts the nodes that remain in their bodies."""


PROGRAMS = [
    *(Case(name, fn, ((5, 3),)) for name, fn in LOOPS.items()),
    Case("cond", lambda x: lax.cond(x.sum() > 0, lambda: x + 1, lambda: x * 2), (X,), (17, 23),
         {"If": 1}, tags=DEFAULT | {"vmap of cond"}),
    Case("cond of products", lambda x: lax.cond(x.sum() > 0, lambda: x @ x.T, lambda: x @ x.T * 2),
         (X,), (17, 23), {"If": 1}, tags=DEFAULT | {JUDGES}),
    *[Case(f"switch {int(i)}", lambda i, x: lax.switch(i, BRANCHES, x), (i, X)) for i in INDEX],
    Case("switch on a Boolean", lambda flag, x: lax.switch(flag.astype(np.int32), BRANCHES, x),
         (np.array(True), X), ops={"If": 1}, tags=DEFAULT),
    Case("switch bare index", lambda i, x: lax.switch(i[0], BRANCHES[:2], x),
         (((1,), np.int32), X), tags=DEFAULT | {"vmap of the first"}),
    # Square roots by Newton's method, until all errors are small.
    Case("while", lambda x: lax.while_loop(
        lambda y: jnp.max(jnp.abs(y * y - jnp.abs(x))) > 1e-3,
        lambda y: 0.5 * (y + jnp.abs(x) / y), jnp.abs(x) + 1), (X,), (17, 23), {"Loop": 1}),
    Case("fori live bound", lambda n, x: lax.fori_loop(0, jnp.abs(n[0]), lambda i, s: s + i, x),
         (((1,), np.int32), X), ops={"Loop": 1}, tags=DEFAULT),
    Case("entries by turns", lambda x: (
        lax.associative_scan(jnp.add, x), lax.associative_scan(jnp.logical_xor, x[:6] > 0, axis=1)),
         (LONG,), ops={"Pad": 1}),
    Case("scan", recurrence, (LONG,), (17, 23), {"Scan": 1}, tags=DEFAULT | {JUDGES}),
    Case("scan reversed", lambda x: lax.scan(
        lambda c, v: (jnp.tanh(c) + v, c - v), x[0], x, reverse=True), (LONG,)),
    Case("scan without operands", lambda x: lax.scan(
        lambda c, _: (jnp.tanh(c) + 1, c.sum()), x, None, length=40), (X,)),
    Case("scan of length zero", lambda x: lax.scan(lambda c, v: (c + v, c * 2), x[0], x[:0]), (X,),
         tags=DEFAULT),
    Case("scan constant output", lambda x: lax.scan(lambda c, v: (c, 7.0), x[0], x), (X,)),
    Case("scan inside scan", lambda x: lax.scan(
        lambda c, v: (c + v.sum(), lax.scan(lambda d, w: (d + w * c, d), 0.0, v)[1]), 0.0, x),
        (X,), tags=DEFAULT),
    Case("cond inside scan", lambda x: lax.scan(
        lambda c, v: (lax.cond(v.sum() > 0, lambda: c + v, lambda: c - x[0]), c), x[0], x), (X,)),
    Case("gradient of a scan", jax.grad(lambda x: recurrence(x)[0].sum()), (LONG,), tolerance=4,
         tags=DEFAULT | {"jit and checkpoint"}),
    Case("unrolled loop", lambda x: newton(x, 10), (np.ones((5, 3), np.float32),),
         ops={"Scan": 0, "Loop": 0}, tags=DEFAULT),
    Case("long loop", lambda x: newton(x, 30), (np.ones((5, 3), np.float32),), ops={"Loop": 1},
         tags=DEFAULT),
    Case("map of named length", lambda x: lax.map(lambda row: jnp.tanh(row) @ MATRIX, x),
         (("N", 3),), ops={"Scan": 1}, tags=DEFAULT),
    # The steps of the Collatz sequence until 1, or until a limit.
    Case("while of lanes, integers", jax.vmap(lambda n: lax.while_loop(
        lambda s: (s[0] > 1) & (s[1] < 30),
        lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1),
        (jnp.abs(n), jnp.int32(0)))), (((6,), np.int32),), tags=DEFAULT),
]  # fmt: skip
