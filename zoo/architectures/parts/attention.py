"""Self-attention over the tokens of one image."""

from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from zoo.architectures.parts.layers import MakeNorm, Norm, pointwise
from zoo.architectures.parts.rope import Rotation

Queries: TypeAlias = Float[Array, "heads queries head_dim"]
Keys: TypeAlias = Float[Array, "heads keys head_dim"]
Mask: TypeAlias = Bool[Array, "#queries keys"]
"""Which keys each query may attend to; every query needs one."""


class Attention(eqx.Module):
    """Multi-head self-attention: `proj(softmax(Q Kᵀ / √head_dim) V)`, where `Q, K, V = qkv(x)`.

    The rows of `qkv` are the queries', the keys' and the values', each head by head. Queries and
    keys may be normed and are then rotated by their positions.

    **Example:**

        attention = Attention(384, heads=6, qkv_bias=True, qk_norm=None, key=jax.random.key(0))
        rotation = AxialRoPE(head_dim=64, base=100.0)(14, 14, prefix_tokens=0)
        y = attention(x, rotation)  # x and y are [14 * 14, 384]

    Sources: Vaswani et al., 2017, arXiv:1706.03762; for the normed queries and keys Dehghani et
    al., 2023, arXiv:2302.05442.
    """

    qkv: eqx.nn.Linear
    proj: eqx.nn.Linear
    q_norm: Norm | None
    k_norm: Norm | None
    heads: int = eqx.field(static=True)

    def __init__(
        self, dim: int, heads: int, *, qkv_bias: bool, qk_norm: MakeNorm | None, key: PRNGKeyArray
    ):
        """**Arguments:**

        - `dim`, `heads`: channels of a token, and in how many heads of `dim / heads` they are.
        - `qkv_bias`: whether the projection to queries, keys and values has a bias.
        - `qk_norm`: makes the norms of queries and keys, over `head_dim` channels; None for none.
        """
        if dim % heads:
            raise ValueError(f"dim must be a multiple of heads: got {dim} and {heads}")
        qkv_key, proj_key = jr.split(key)
        self.qkv = eqx.nn.Linear(dim, 3 * dim, use_bias=qkv_bias, key=qkv_key)
        self.proj = eqx.nn.Linear(dim, dim, key=proj_key)
        self.q_norm = qk_norm(dim // heads) if qk_norm else None
        self.k_norm = qk_norm(dim // heads) if qk_norm else None
        self.heads = heads

    def __call__(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> Float[Array, "tokens dim"]:
        """**Arguments:** the tokens; how positions rotate their queries and keys, if so; and which
        tokens each may attend to, if not to all."""
        return self.with_weights(x, rotation, mask)[0]

    def with_weights(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> tuple[Float[Array, "tokens dim"], Float[Array, "heads tokens tokens"]]:
        """The same, and how much each token attends to each."""
        q, k, v = self.operands(x, rotation)
        weights = attention_weights(q, k, mask)
        return pointwise(self.proj, mixed(weights, v)), weights

    def operands(
        self, x: Float[Array, "tokens dim"], rotation: Rotation | None = None
    ) -> tuple[Queries, Keys, Keys]:
        """Queries, keys and values of the heads, the first two rotated."""
        tokens, dim = x.shape
        qkv = pointwise(self.qkv, x).reshape(tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = pointwise(self.q_norm, q), pointwise(self.k_norm, k)
        if rotation is not None:
            q, k = rotation(q), rotation(k)
        return q, k, v


def attend(q: Queries, k: Keys, v: Keys) -> Float[Array, "queries dim"]:
    """**Returns** `softmax(Q Kᵀ / √head_dim) V` of every head, the heads side by side."""
    return mixed(attention_weights(q, k), v)


def attention_weights(
    q: Queries, k: Keys, mask: Mask | None = None
) -> Float[Array, "heads queries keys"]:
    """**Returns** `softmax(Q Kᵀ / √head_dim)` of every head, over the keys that a mask allows."""
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    # The softmax is taken in float32, whatever the parameters' type.
    scores = scores.astype(jnp.float32)
    if mask is not None:
        # A finite number: a query that may attend to no key has equal weights, not NaN.
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    return jax.nn.softmax(scores, axis=-1).astype(q.dtype)


def mixed(weights: Float[Array, "heads queries keys"], v: Keys) -> Float[Array, "queries dim"]:
    """**Returns** the weighted means of the values of every head, the heads side by side."""
    heads, queries, _ = weights.shape
    out = jnp.einsum("hqk,hkd->hqd", weights, v)
    return out.transpose(1, 0, 2).reshape(queries, heads * v.shape[-1])
