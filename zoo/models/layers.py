"""Layers of a vision transformer, one sample at a time.

Names and semantics are those of Equimo's modules, without dropout: these models are for
inference and fine-tuning of published weights, and a layer that does nothing at inference
should leave no trace in an exported file.
"""

from collections.abc import Callable
from typing import Literal

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.models.config import ViTConfig

Norm = eqx.nn.LayerNorm | eqx.nn.RMSNorm


def norm(config: ViTConfig, width: int) -> Norm:
    """The normalisation that a configuration asks for, over `width` channels."""
    if config.norm == "layer":
        return eqx.nn.LayerNorm(width, eps=config.norm_eps, use_bias=config.norm_bias)
    return eqx.nn.RMSNorm(width, eps=config.norm_eps, use_bias=config.norm_bias)


def gelu(x: Float[Array, "*shape"], kind: Literal["erf", "tanh"]) -> Float[Array, "*shape"]:
    """The exact GELU, or its approximation by a hyperbolic tangent."""
    return jax.nn.gelu(x, approximate=kind == "tanh")


class PatchEmbedding(eqx.Module):
    """Cuts an image into patches and projects each to a token.

    What does not fill a patch at the right and bottom edge is dropped.
    """

    proj: eqx.nn.Conv2d

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        self.proj = eqx.nn.Conv2d(3, config.dim, config.patch, stride=config.patch, key=key)

    def __call__(self, image: Float[Array, "3 H W"]) -> Float[Array, "dim height width"]:
        """Pixels → tokens on their grid of `H // patch` rows and `W // patch` columns."""
        return self.proj(image)


class Rotation(eqx.Module):
    """Rotates each pair of channels by its token's angle (Su et al., 2021, arXiv:2104.09864).

    `turn` turns every pair by a quarter; the tables have a row for each token.
    """

    sin: Float[Array, "tokens head_dim"]
    cos: Float[Array, "tokens head_dim"]
    turn: Callable[[Array], Array] = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "heads tokens head_dim"]
    ) -> Float[Array, "heads tokens head_dim"]:
        """`x · cos + turn(x) · sin`, in the type of `x`."""
        return x * self.cos.astype(x.dtype) + self.turn(x) * self.sin.astype(x.dtype)


class Attention(eqx.Module):
    """Multi-head self-attention, with rotary positions and normed queries and keys where asked.

    `softmax(Q Kᵀ / √head_dim) V`, all heads from one projection `qkv` whose rows are the
    queries', the keys' and the values', each head by head.
    """

    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    q_norm: Norm | None
    k_norm: Norm | None
    heads: int = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        qkv_key, proj_key = jr.split(key)
        dim = config.dim
        self.qkv = eqx.nn.Linear(dim, 3 * dim, use_bias=config.qkv_bias, key=qkv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.q_norm = norm(config, config.head_dim) if config.qk_norm else None
        self.k_norm = norm(config, config.head_dim) if config.qk_norm else None
        self.heads = config.heads

    def __call__(
        self, x: Float[Array, "tokens dim"], rotation: Rotation | None = None
    ) -> Float[Array, "tokens dim"]:
        """**Arguments:** the tokens, and how their positions rotate queries and keys."""
        tokens, dim = x.shape
        qkv = jax.vmap(self.qkv)(x).reshape(tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = jax.vmap(jax.vmap(self.q_norm))(q), jax.vmap(jax.vmap(self.k_norm))(k)
        if rotation is not None:
            q, k = rotation(q), rotation(k)
        return jax.vmap(self.proj)(attend(q, k, v))


def attend(
    q: Float[Array, "heads queries head_dim"],
    k: Float[Array, "heads keys head_dim"],
    v: Float[Array, "heads keys head_dim"],
) -> Float[Array, "queries dim"]:
    """`softmax(Q Kᵀ / √head_dim) V` of every head, the heads side by side."""
    heads, queries, width = q.shape
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * width**-0.5
    # The softmax is taken in float32, whatever the parameters' type.
    weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(q.dtype)
    out = jnp.einsum("hqk,hkd->hqd", weights, v)
    return out.transpose(1, 0, 2).reshape(queries, heads * width)


class Mlp(eqx.Module):
    """`fc2(gelu(fc1(x)))`."""

    fc1: eqx.nn.Linear
    fc2: eqx.nn.Linear
    gelu: Literal["erf", "tanh"] = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        key1, key2 = jr.split(key)
        self.fc1 = eqx.nn.Linear(config.dim, config.hidden, key=key1)
        self.fc2 = eqx.nn.Linear(config.hidden, config.dim, key=key2)
        self.gelu = config.gelu

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Applied to each token alone."""
        return jax.vmap(self.fc2)(gelu(jax.vmap(self.fc1)(x), self.gelu))


class SwiGlu(eqx.Module):
    """`w3(silu(w1(x)) · w2(x))` (Shazeer, 2020, arXiv:2002.05202)."""

    w1: eqx.nn.Linear
    w2: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        key1, key2, key3 = jr.split(key, 3)
        self.w1 = eqx.nn.Linear(config.dim, config.hidden, key=key1)
        self.w2 = eqx.nn.Linear(config.dim, config.hidden, key=key2)
        self.w3 = eqx.nn.Linear(config.hidden, config.dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Applied to each token alone."""
        return jax.vmap(self.w3)(jax.nn.silu(jax.vmap(self.w1)(x)) * jax.vmap(self.w2)(x))


class SwiGluFused(eqx.Module):
    """`SwiGlu` with the rows of `w1` and `w2` in one layer, as DINOv2's giant has it."""

    w12: eqx.nn.Linear
    w3: eqx.nn.Linear

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        key12, key3 = jr.split(key)
        self.w12 = eqx.nn.Linear(config.dim, 2 * config.hidden, key=key12)
        self.w3 = eqx.nn.Linear(config.hidden, config.dim, key=key3)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Applied to each token alone."""
        gate, value = jnp.split(jax.vmap(self.w12)(x), 2, axis=-1)
        return jax.vmap(self.w3)(jax.nn.silu(gate) * value)


FeedForward = Mlp | SwiGlu | SwiGluFused
FEED_FORWARD: dict[str, type[FeedForward]] = {
    "mlp": Mlp,
    "swiglu": SwiGlu,
    "swiglu_fused": SwiGluFused,
}


class LayerScale(eqx.Module):
    """Multiplies every channel by its own `gamma` (Touvron et al., 2021, arXiv:2103.17239)."""

    gamma: Float[Array, " dim"]

    def __init__(self, dim: int, value: float):
        self.gamma = jnp.full((dim,), value)

    def __call__(self, x: Float[Array, "*lead dim"]) -> Float[Array, "*lead dim"]:
        """`x · gamma`."""
        return x * self.gamma


class Block(eqx.Module):
    """Pre-norm transformer block: `x += ls1(attn(prenorm(x)))`, `x += ls2(mlp(norm(x)))`."""

    prenorm: Norm
    attn: Attention
    ls1: LayerScale | None
    norm: Norm
    mlp: FeedForward
    ls2: LayerScale | None

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        attn_key, mlp_key = jr.split(key)
        self.prenorm = norm(config, config.dim)
        self.attn = Attention(config, key=attn_key)
        self.norm = norm(config, config.dim)
        self.mlp = FEED_FORWARD[config.ffn](config, key=mlp_key)
        scale = config.layer_scale
        self.ls1 = None if scale is None else LayerScale(config.dim, scale)
        self.ls2 = None if scale is None else LayerScale(config.dim, scale)

    def __call__(
        self, x: Float[Array, "tokens dim"], rotation: Rotation | None = None
    ) -> Float[Array, "tokens dim"]:
        """**Arguments:** as for `Attention`."""
        attended = self.attn(jax.vmap(self.prenorm)(x), rotation)
        x = x + (attended if self.ls1 is None else self.ls1(attended))
        fed = self.mlp(jax.vmap(self.norm)(x))
        return x + (fed if self.ls2 is None else self.ls2(fed))


class AttentionPool(eqx.Module):
    """One token from all, by attention with a learned query: SigLIP's pooling head.

    `y = proj(softmax(q(latent) K / √head_dim) V)`, then `y + mlp(norm(y))`, where the rows of
    `kv` are the keys' and the values'.

    Source: `MAPHead` of google-research/big_vision (Zhai et al., 2022, arXiv:2106.04560).
    """

    latent: Float[Array, "1 dim"]
    q: eqx.nn.Linear
    kv: eqx.nn.Linear
    proj: eqx.nn.Linear
    norm: Norm
    mlp: FeedForward
    heads: int = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        latent_key, q_key, kv_key, proj_key, mlp_key = jr.split(key, 5)
        dim = config.dim
        self.latent = 0.02 * jr.normal(latent_key, (1, dim))
        self.q = eqx.nn.Linear(dim, dim, key=q_key)
        self.kv = eqx.nn.Linear(dim, 2 * dim, key=kv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.norm = norm(config, dim)
        self.mlp = FEED_FORWARD[config.ffn](config, key=mlp_key)
        self.heads = config.heads

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, " dim"]:
        """The pooled token."""
        tokens, dim = x.shape
        width = dim // self.heads
        q = jax.vmap(self.q)(self.latent).reshape(1, self.heads, width).transpose(1, 0, 2)
        kv = jax.vmap(self.kv)(x).reshape(tokens, 2, self.heads, width)
        k, v = kv.transpose(1, 2, 0, 3)
        y = jax.vmap(self.proj)(attend(q, k, v))
        return (y + self.mlp(jax.vmap(self.norm)(y)))[0]
