"""From the tokens of an image to one vector for it."""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.attention import attend
from zoo.architectures.parts.feed_forward import FeedForward, MakeFeedForward
from zoo.architectures.parts.layers import MakeNorm, Norm, pointwise

Pool: TypeAlias = Callable[[Float[Array, "tokens dim"], int], Float[Array, " width"]]
"""Is given the tokens, and how many of them are in front of the patches."""


def class_token(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " dim"]:
    """The first token (Dosovitskiy et al., 2021, arXiv:2010.11929)."""
    return x[0]


def mean_of_patches(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " dim"]:
    """The mean of all tokens but the first `prefix_tokens`."""
    return x[prefix_tokens:].mean(axis=0)


def token_and_mean(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " width"]:
    """The first token, and behind it the mean of the patches: twice as many channels."""
    return jnp.concatenate([class_token(x, prefix_tokens), mean_of_patches(x, prefix_tokens)])


class AttentionPool(eqx.Module):
    """One token from all, by attention with a learned query: SigLIP's pooling head.

    `y = proj(softmax(q(latent) Kᵀ / √head_dim) V)`, then `y + mlp(norm(y))`, where `K, V = kv(x)`:
    the rows of `kv` are the keys' and the values', each head by head. `latent` is the
    learned query, which big_vision calls the probe.

    Source: `MAPHead` of google-research/big_vision (Zhai et al., 2022, arXiv:2106.04560).
    """

    latent: Float[Array, "1 dim"]
    q: eqx.nn.Linear
    kv: eqx.nn.Linear
    proj: eqx.nn.Linear
    norm: Norm
    mlp: FeedForward
    heads: int = eqx.field(static=True)

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        *,
        ffn: MakeFeedForward,
        norm: MakeNorm,
        key: PRNGKeyArray,
    ):
        """**Arguments:** as for `Block`."""
        if dim % heads:
            raise ValueError(f"dim must be a multiple of heads: got {dim} and {heads}")
        latent_key, q_key, kv_key, proj_key, mlp_key = jr.split(key, 5)
        self.latent = 0.02 * jr.normal(latent_key, (1, dim))
        self.q = eqx.nn.Linear(dim, dim, key=q_key)
        self.kv = eqx.nn.Linear(dim, 2 * dim, key=kv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.norm = norm(dim)
        self.mlp = ffn(dim, hidden, key=mlp_key)
        self.heads = heads

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, " dim"]:
        tokens, dim = x.shape
        width = dim // self.heads
        q = pointwise(self.q, self.latent).reshape(1, self.heads, width).transpose(1, 0, 2)
        kv = pointwise(self.kv, x).reshape(tokens, 2, self.heads, width)
        k, v = kv.transpose(1, 2, 0, 3)
        y = pointwise(self.proj, attend(q, k, v))
        return (y + self.mlp(pointwise(self.norm, y)))[0]
