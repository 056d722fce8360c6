"""The feed-forward networks of a transformer block, each applied to every token alone."""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.layers import Activation, pointwise


class Mlp(eqx.Module):
    """`fc2(activation(fc1(x)))`. Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.3."""

    fc1: eqx.nn.Linear
    fc2: eqx.nn.Linear
    activation: Activation = eqx.field(static=True)

    def __init__(self, dim: int, hidden: int, *, activation: Activation, key: PRNGKeyArray):
        """**Arguments:** channels of a token and between the two layers, and what is there."""
        key1, key2 = jr.split(key)
        self.fc1 = eqx.nn.Linear(dim, hidden, key=key1)
        self.fc2 = eqx.nn.Linear(hidden, dim, key=key2)
        self.activation = activation

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        return pointwise(self.fc2, self.activation(pointwise(self.fc1, x)))


class SwiGlu(eqx.Module):
    """`w3(silu(w1(x)) · w2(x))`: one half of the hidden channels gates the other.

    `w1` is the gate projection, `w2` the up projection and `w3` the down projection.

    Source: Shazeer, 2020, arXiv:2002.05202.
    """

    w1: eqx.nn.Linear
    w2: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, dim: int, hidden: int, *, key: PRNGKeyArray):
        """**Arguments:** channels of a token, and of the gate and of what it gates."""
        key1, key2, key3 = jr.split(key, 3)
        self.w1 = eqx.nn.Linear(dim, hidden, key=key1)
        self.w2 = eqx.nn.Linear(dim, hidden, key=key2)
        self.w3 = eqx.nn.Linear(hidden, dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        return pointwise(self.w3, jax.nn.silu(pointwise(self.w1, x)) * pointwise(self.w2, x))


class SwiGluFused(eqx.Module):
    """`SwiGlu` with the rows of `w1` and then those of `w2` in one layer `w12`.

    Source: `dinov2/layers/swiglu_ffn.py` of facebookresearch/dinov2, whose giant has it.
    """

    w12: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, dim: int, hidden: int, *, key: PRNGKeyArray):
        """**Arguments:** as for `SwiGlu`."""
        key12, key3 = jr.split(key)
        self.w12 = eqx.nn.Linear(dim, 2 * hidden, key=key12)
        self.w3 = eqx.nn.Linear(hidden, dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        gate, value = jnp.split(pointwise(self.w12, x), 2, axis=-1)
        return pointwise(self.w3, jax.nn.silu(gate) * value)


FeedForward: TypeAlias = Mlp | SwiGlu | SwiGluFused

MakeFeedForward: TypeAlias = Callable[..., FeedForward]
"""Is called as `make(dim, hidden, key=key)`: `SwiGlu`, `partial(Mlp, activation=gelu_tanh)`."""
