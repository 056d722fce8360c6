"""Blocks of transformers: feed-forward networks, the block itself, and pooling of its tokens."""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.architectures.parts.attention import Attention, Mask, Rotation, attend
from zoo.architectures.parts.layers import Activation, LayerScale, MakeNorm, Norm, pointwise


class Mlp(eqx.Module):
    """Feed-forward network `fc2(activation(fc1(x)))`.

    Source: Vaswani et al., 2017, arXiv:1706.03762, section 3.3.
    """

    fc1: eqx.nn.Linear
    fc2: eqx.nn.Linear
    activation: Activation = eqx.field(static=True)

    def __init__(self, dim: int, hidden: int, *, activation: Activation, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `hidden`: the number of channels between the two layers.
        - `activation`: the function between the two layers.
        """
        key1, key2 = jr.split(key)
        self.fc1 = eqx.nn.Linear(dim, hidden, key=key1)
        self.fc2 = eqx.nn.Linear(hidden, dim, key=key2)
        self.activation = activation

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Return the tokens after both layers."""
        return pointwise(self.fc2, self.activation(pointwise(self.fc1, x)))


class SwiGlu(eqx.Module):
    """Feed-forward network `w3(silu(w1(x)) · w2(x))`, in which one half of the hidden channels
    gates the other.

    `w1` is the gate projection, `w2` the up projection and `w3` the down projection.

    Source: Shazeer, 2020, arXiv:2002.05202.
    """

    w1: eqx.nn.Linear
    w2: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, dim: int, hidden: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `hidden`: the number of channels of the gate, and of the values that it multiplies.
        """
        key1, key2, key3 = jr.split(key, 3)
        self.w1 = eqx.nn.Linear(dim, hidden, key=key1)
        self.w2 = eqx.nn.Linear(dim, hidden, key=key2)
        self.w3 = eqx.nn.Linear(hidden, dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Return the tokens after the gated network."""
        return pointwise(self.w3, jax.nn.silu(pointwise(self.w1, x)) * pointwise(self.w2, x))


class SwiGluFused(eqx.Module):
    """`SwiGlu` with the rows of `w1` followed by those of `w2` in one layer, `w12`.

    Source: `dinov2/layers/swiglu_ffn.py` of facebookresearch/dinov2, whose giant model has it.
    """

    w12: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, dim: int, hidden: int, *, key: PRNGKeyArray):
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `hidden`: the number of channels of the gate, and of the values that it multiplies.
        """
        key12, key3 = jr.split(key)
        self.w12 = eqx.nn.Linear(dim, 2 * hidden, key=key12)
        self.w3 = eqx.nn.Linear(hidden, dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Return the tokens after the gated network."""
        gate, value = jnp.split(pointwise(self.w12, x), 2, axis=-1)
        return pointwise(self.w3, jax.nn.silu(gate) * value)


FeedForward: TypeAlias = Mlp | SwiGlu | SwiGluFused

MakeFeedForward: TypeAlias = Callable[..., FeedForward]
"""Function that returns a feed-forward network and is called as `make(dim, hidden, key=key)`, such
as `SwiGlu` or `partial(Mlp, activation=gelu_tanh)`."""


class Block(eqx.Module):
    """Pre-norm transformer block: `y = x + ls1(attn(prenorm(x)))`, `z = y + ls2(mlp(norm(y)))`.

    `prenorm` and `norm` are the norms before attention and before the feed-forward network, which
    papers and other code call norm1 and norm2. `ls1` and `ls2` are the layer scales.

    Sources: Dosovitskiy et al., 2021, arXiv:2010.11929; for the scales Touvron et al., 2021,
    arXiv:2103.17239.
    """

    prenorm: Norm
    attn: Attention
    ls1: LayerScale | None
    norm: Norm
    mlp: FeedForward
    ls2: LayerScale | None

    def __init__(
        self,
        dim: int,
        heads: int,
        hidden: int,
        *,
        ffn: MakeFeedForward,
        norm: MakeNorm,
        qkv_bias: bool,
        qk_norm: MakeNorm | None,
        layer_scale: float | None,
        key: PRNGKeyArray,
    ):
        """**Arguments:**

        - `dim`, `heads`, `qkv_bias`, `qk_norm`: as for `Attention`.
        - `hidden`: the number of channels inside the feed-forward network.
        - `ffn`: a function that returns the feed-forward network: `Mlp`, `SwiGlu`, `partial(Mlp,
          activation=gelu_tanh)`.
        - `norm`: a function that returns a norm: `eqx.nn.LayerNorm`, `partial(eqx.nn.RMSNorm,
          eps=1e-6)`.
        - `layer_scale`: the initial scale of both branches; None for a block without layer scales.
        """
        attn_key, mlp_key = jr.split(key)
        self.prenorm = norm(dim)
        self.attn = Attention(dim, heads, qkv_bias=qkv_bias, qk_norm=qk_norm, key=attn_key)
        self.norm = norm(dim)
        self.mlp = ffn(dim, hidden, key=mlp_key)
        self.ls1 = None if layer_scale is None else LayerScale(dim, layer_scale)
        self.ls2 = None if layer_scale is None else LayerScale(dim, layer_scale)

    @eqx.filter_jit  # traced once for all blocks
    def __call__(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> Float[Array, "tokens dim"]:
        """Return the tokens after the block.

        **Arguments:**

        - `x`: the tokens.
        - `rotation`: the rotation of queries and keys; None if they are not rotated.
        - `mask`: `[tokens, tokens]` or `[1, tokens]`, True where the token of the row (query) may
          attend to that of the column (key); None if all tokens attend to all.
        """
        return self.with_weights(x, rotation, mask)[0]

    @eqx.filter_jit
    def with_weights(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> tuple[Float[Array, "tokens dim"], Float[Array, "heads tokens tokens"]]:
        """Return the tokens after the block, and the attention weights of each token (query) for
        each token (key). `rotation` and `mask` are as in a call."""
        attended, weights = self.attn.with_weights(pointwise(self.prenorm, x), rotation, mask)
        x = x + (attended if self.ls1 is None else self.ls1(attended))
        hidden = self.mlp(pointwise(self.norm, x))
        return x + (hidden if self.ls2 is None else self.ls2(hidden)), weights


Pool: TypeAlias = Callable[[Float[Array, "tokens dim"], int], Float[Array, " width"]]
"""Function that returns one vector for the tokens. Its second argument is the number of tokens
before the patches."""


def class_token(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " dim"]:
    """Return the first token (Dosovitskiy et al., 2021, arXiv:2010.11929). `prefix_tokens` is not
    used."""
    return x[0]


def mean_of_patches(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " dim"]:
    """Return the mean of the patches, which are all tokens except the first `prefix_tokens`."""
    return x[prefix_tokens:].mean(axis=0)


def token_and_mean(x: Float[Array, "tokens dim"], prefix_tokens: int) -> Float[Array, " width"]:
    """Return the first token followed by the mean of the patches, which are all tokens after the
    first `prefix_tokens`. The result has twice the channels of a token."""
    return jnp.concatenate([class_token(x, prefix_tokens), mean_of_patches(x, prefix_tokens)])


class AttentionPool(eqx.Module):
    """Pooling of tokens by attention with one learned query: SigLIP's pooling head.

    It computes `y = proj(softmax(q(latent) Kᵀ / √head_dim) V)`, then `y + mlp(norm(y))`, where `K,
    V = kv(x)`. The rows of `kv` are those of keys, then those of values, each head by head.
    `latent` is the learned query, which big_vision calls the probe.

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
        """**Arguments:**

        - `dim`: the number of channels of a token.
        - `heads`: the number of heads.
        - `hidden`: the number of channels inside the feed-forward network.
        - `ffn`, `norm`: functions that return the feed-forward network and a norm, as for `Block`.

        **Raises** `ValueError` if `dim` is not a multiple of `heads`.
        """
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

    def __call__(
        self, x: Float[Array, "tokens dim"], mask: Mask | None = None
    ) -> Float[Array, " dim"]:
        """Return one vector for the tokens.

        **Arguments:**

        - `x`: the tokens.
        - `mask`: `[1, tokens]`, True for the tokens that the learned query may attend to; None for
          all.
        """
        tokens, dim = x.shape
        width = dim // self.heads
        q = pointwise(self.q, self.latent).reshape(1, self.heads, width).transpose(1, 0, 2)
        kv = pointwise(self.kv, x).reshape(tokens, 2, self.heads, width)
        k, v = kv.transpose(1, 2, 0, 3)
        y = pointwise(self.proj, attend(q, k, v, mask))
        return (y + self.mlp(pointwise(self.norm, y)))[0]
