"""Transformer blocks: feed-forward networks, the block, and pooling of its tokens."""

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


class Block(eqx.Module):
    """Pre-norm transformer block: `y = x + ls1(attn(prenorm(x)))`, `z = y + ls2(mlp(norm(y)))`.

    `prenorm` and `norm` are what papers and other code call norm1 and norm2, the norms before
    attention and before the feed-forward network; `ls1` and `ls2` are the layer scales.

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
        - `hidden`: channels inside the feed-forward network.
        - `ffn`: makes it: `Mlp`, `SwiGlu`, `partial(Mlp, activation=gelu_tanh)`.
        - `norm`: makes both norms: `eqx.nn.LayerNorm`, `partial(eqx.nn.RMSNorm, eps=1e-6)`.
        - `layer_scale`: what the factors of both branches begin with; None leaves them out.
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
        """**Arguments** and **returns** as `Attention`."""
        return self.with_weights(x, rotation, mask)[0]

    @eqx.filter_jit
    def with_weights(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> tuple[Float[Array, "tokens dim"], Float[Array, "heads tokens tokens"]]:
        """The same, and how much each token attends to each."""
        attended, weights = self.attn.with_weights(pointwise(self.prenorm, x), rotation, mask)
        x = x + (attended if self.ls1 is None else self.ls1(attended))
        fed = self.mlp(pointwise(self.norm, x))
        return x + (fed if self.ls2 is None else self.ls2(fed)), weights


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

    def __call__(
        self, x: Float[Array, "tokens dim"], mask: Mask | None = None
    ) -> Float[Array, " dim"]:
        """**Arguments:** the tokens; and which of them the query may attend to, if not to all."""
        tokens, dim = x.shape
        width = dim // self.heads
        q = pointwise(self.q, self.latent).reshape(1, self.heads, width).transpose(1, 0, 2)
        kv = pointwise(self.kv, x).reshape(tokens, 2, self.heads, width)
        k, v = kv.transpose(1, 2, 0, 3)
        y = pointwise(self.proj, attend(q, k, v, mask))
        return (y + self.mlp(pointwise(self.norm, y)))[0]
