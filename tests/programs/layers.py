"""Layers of Equinox and Flax, called as users call them."""

import equinox as eqx
import jax
import jax.numpy as jnp
from flax import nnx
from jax import lax

from tests.conformance import DEFAULT, JUDGES, Case, drawn

RNGS = nnx.Rngs(0)
LSTM = drawn(lambda key: eqx.nn.LSTMCell(3, 5, key=key))


def lstm_over_time(xs):
    start = (jnp.zeros(5), jnp.zeros(5))
    return lax.scan(lambda state, x: ((new := LSTM(x, state)), new[0]), start, xs)


LINEAR = drawn(lambda key: eqx.nn.Linear(3, 4, key=key))
MLP = drawn(lambda key: eqx.nn.MLP(3, "scalar", 8, 1, key=key))
EQUINOX = [
    Case("Linear", jax.vmap(LINEAR), (("B", 3),),
         ops={"MatMul": 1, "Add": 1, "Transpose": 0}),
    Case("LSTM over time, batched", jax.vmap(lstm_over_time), (("B", 7, 3),), ops={"LSTM": 1},
         tags=DEFAULT | {JUDGES}),
    Case("gradient of an MLP", jax.grad(MLP), ((3,),),
         tags=DEFAULT),
]  # fmt: skip
FLAX = [
    Case("nnx Conv", nnx.Conv(3, 5, (3, 3), rngs=RNGS), (("B", 8, 9, 3),),
         ops={"Conv": 1, "Add": 0}, tags=DEFAULT),
    Case("nnx ConvTranspose", nnx.ConvTranspose(3, 5, (3, 3), strides=2, rngs=RNGS),
         (("B", 8, 9, 3),), ops={"ConvTranspose": 1, "Add": 0}),
    Case("nnx MultiHeadAttention", nnx.MultiHeadAttention(2, 8, decode=False, rngs=RNGS),
         ((2, 5, 8),), (17, 23), tolerance=4, tags=DEFAULT),
    Case("nnx pools", lambda x: (nnx.max_pool(x, (2, 2), (2, 2)), nnx.avg_pool(x, (2, 2), (2, 2))),
         (("B", 8, 9, 3),), ops={"MaxPool": 1, "AveragePool": 1, "Div": 0}),
]  # fmt: skip

PROGRAMS = [*EQUINOX, *FLAX]
