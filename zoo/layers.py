"""Layers of a vision transformer, one sample at a time.

Names and semantics are those of Equimo's modules, without dropout: these models are for
inference and fine-tuning of published weights, and a layer that does nothing at inference
should leave no trace in an exported file.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Float, PRNGKeyArray

from zoo.entry import ViTConfig
from zoo.posemb import apply_rope


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


class Attention(eqx.Module):
    """Multi-head self-attention with rotary positions.

    `softmax(rope(Q) rope(K)ᵀ / √head_dim) V`, all heads from one projection `qkv` whose rows
    are the queries', the keys' and the values', each head by head.
    """

    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    heads: int = eqx.field(static=True)

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        qkv_key, proj_key = jr.split(key)
        dim = config.dim
        self.qkv = eqx.nn.Linear(dim, 3 * dim, use_bias=config.qkv_bias, key=qkv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.heads = config.heads

    def __call__(
        self,
        x: Float[Array, "tokens dim"],
        sin: Float[Array, "tokens head_dim"],
        cos: Float[Array, "tokens head_dim"],
    ) -> Float[Array, "tokens dim"]:
        """**Arguments:** the tokens, and the rotary tables with a row for each of them."""
        tokens, dim = x.shape
        qkv = jax.vmap(self.qkv)(x).reshape(tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        q, k = apply_rope(q, sin, cos), apply_rope(k, sin, cos)
        scores = jnp.einsum("hqd,hkd->hqk", q, k) * (dim // self.heads) ** -0.5
        # The softmax is taken in float32, whatever the parameters' type.
        weights = jax.nn.softmax(scores.astype(jnp.float32), axis=-1).astype(x.dtype)
        out = jnp.einsum("hqk,hkd->hqd", weights, v)
        return jax.vmap(self.proj)(out.transpose(1, 0, 2).reshape(tokens, dim))


class Mlp(eqx.Module):
    """`fc2(gelu(fc1(x)))` with the exact, erf-based GELU."""

    fc1: eqx.nn.Linear
    fc2: eqx.nn.Linear

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        key1, key2 = jr.split(key)
        self.fc1 = eqx.nn.Linear(config.dim, config.hidden, key=key1)
        self.fc2 = eqx.nn.Linear(config.hidden, config.dim, key=key2)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """Applied to each token alone."""
        return jax.vmap(self.fc2)(jax.nn.gelu(jax.vmap(self.fc1)(x), approximate=False))


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


class LayerScale(eqx.Module):
    """Multiplies every channel by its own `gamma` (Touvron et al., 2021, arXiv:2103.17239)."""

    gamma: Float[Array, " dim"]

    def __init__(self, config: ViTConfig):
        self.gamma = jnp.full((config.dim,), config.layer_scale)

    def __call__(self, x: Float[Array, "tokens dim"]) -> Float[Array, "tokens dim"]:
        """`x · gamma`."""
        return x * self.gamma


class Block(eqx.Module):
    """Pre-norm transformer block: `x += ls1(attn(prenorm(x)))`, `x += ls2(mlp(norm(x)))`."""

    prenorm: eqx.nn.LayerNorm
    attn: Attention
    ls1: LayerScale
    norm: eqx.nn.LayerNorm
    mlp: Mlp | SwiGlu
    ls2: LayerScale

    def __init__(self, config: ViTConfig, *, key: PRNGKeyArray):
        attn_key, mlp_key = jr.split(key)
        self.prenorm = eqx.nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.attn = Attention(config, key=attn_key)
        self.ls1 = LayerScale(config)
        self.norm = eqx.nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.mlp = (Mlp if config.ffn == "mlp" else SwiGlu)(config, key=mlp_key)
        self.ls2 = LayerScale(config)

    def __call__(
        self,
        x: Float[Array, "tokens dim"],
        sin: Float[Array, "tokens head_dim"],
        cos: Float[Array, "tokens head_dim"],
    ) -> Float[Array, "tokens dim"]:
        """**Arguments:** as for `Attention`."""
        x = x + self.ls1(self.attn(jax.vmap(self.prenorm)(x), sin, cos))
        return x + self.ls2(self.mlp(jax.vmap(self.norm)(x)))
