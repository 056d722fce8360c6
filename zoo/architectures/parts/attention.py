"""Self-attention over the tokens of one picture, with rotary position embeddings (RoPE).

A layer for rotary positions makes the `Rotation` of a grid once for all blocks. Attention applies
it.

Source of the embeddings: Su et al., 2021, arXiv:2104.09864.
"""

from collections.abc import Callable
from typing import TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
from jaxtyping import Array, Bool, Float, PRNGKeyArray

from zoo.architectures.parts.layers import MakeNorm, Norm, Size, pointwise

Rotate: TypeAlias = Callable[[Float[Array, "*lead head_dim"]], Float[Array, "*lead head_dim"]]


def rotate_half(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
    """Rotate each pair of channels (i, i + head_dim / 2) by 90°: [a, b, c, d] → [-c, -d, a, b]."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-second, first], axis=-1)


def rotate_interleaved(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
    """Rotate each pair of neighbouring channels by 90°: [a, b, c, d] → [-b, a, -d, c]."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return jnp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)


class Rotation(eqx.Module):
    """Rotation of each pair of channels by the angle of its token: `x · cos + rotate(x) · sin`.

    `rotate` is `rotate_half` or `rotate_interleaved`, and determines which channels are a pair.
    """

    sin: Float[Array, "tokens head_dim"]
    cos: Float[Array, "tokens head_dim"]
    rotate: Rotate = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "heads tokens head_dim"]
    ) -> Float[Array, "heads tokens head_dim"]:
        """Return queries or keys, rotated by the angles of their tokens, in their dtype."""
        return x * self.cos.astype(x.dtype) + self.rotate(x) * self.sin.astype(x.dtype)


class AxialRoPE(eqx.Module):
    """DINOv3's rotary embedding in two dimensions.

    The centre of patch `i` of `n` along an axis has the coordinate `2 (i + 0.5) / n - 1`. Its
    angles are `2π · coordinate / periods`, first for the height and then for the width, where
    `periods[k] = base^(2k / (head_dim / 2))` for `k < head_dim / 4`. The periods are a leaf and are
    not computed from `base`: published files hold them rounded to bfloat16, and the exact periods
    change the features by 3e-3.

    Source: `dinov3/layers/rope_position_encoding.py` of facebookresearch/dinov3.
    """

    periods: Float[Array, " quarter"]

    def __init__(self, head_dim: int, *, base: float):
        """**Arguments:**

        - `head_dim`: the number of channels of an attention head, a multiple of 4.
        - `base`: the upper limit of the periods.
        """
        self.periods = base ** period_exponents(head_dim)

    def __call__(self, height: Size, width: Size, prefix_tokens: int) -> Rotation:
        """Return the rotation of the tokens of a picture: first those without positions, then the
        patches by rows.

        **Arguments:**

        - `height`, `width`: the numbers of patches along each side.
        - `prefix_tokens`: the number of first tokens, which have no position and are not rotated.
        """
        # Angles are computed in float32, whatever the dtype of the parameters.
        periods = jax.lax.stop_gradient(self.periods).astype(jnp.float32)
        # arange(0.5, n) would need a known n while tracing.
        sides = (2 * ((patch_indices(side) + 0.5) / side) - 1 for side in (height, width))
        patches = grid_positions(*sides).reshape(height * width, 2)
        angles = 2 * jnp.pi * patches[:, :, None] / periods
        angles = angles.reshape(height * width, 2 * periods.shape[0])
        angles = jnp.concatenate([angles, angles], axis=-1)
        return make_rotation(angles, prefix_tokens, rotate_half)


class GridRoPE(eqx.Module):
    """ViT-5's rotary embedding: `angle = i / n · length · freqs` for row or column `i` of `n`.

    The first half of the channels has the angles of the row, the second half those of the column.
    Neighbouring channels are pairs. The frequencies are `freqs[k] = theta^(-2k / (head_dim / 2))`
    for `k < head_dim / 4`. The class token is not rotated. The registers are rotated like the
    patches of a square picture with as many patches, whose `length` is its side in patches, with
    their own frequencies `reg_freqs`.

    Source: `rope.py` of wangf3014/ViT-5 (`VisionRotaryEmbedding`).
    """

    freqs: Float[Array, " quarter"]
    reg_freqs: Float[Array, " quarter"]
    length: int = eqx.field(static=True)

    def __init__(self, head_dim: int, *, length: int, theta: float, register_theta: float):
        """**Arguments:**

        - `head_dim`: the number of channels of an attention head, a multiple of 4.
        - `length`, `theta`, `register_theta`: as in `RopeGrid`.
        """
        self.freqs = theta ** -period_exponents(head_dim)
        self.reg_freqs = register_theta ** -period_exponents(head_dim)
        self.length = length

    def __call__(self, height: Size, width: Size, prefix_tokens: int) -> Rotation:
        """Return the rotation of the class token, followed by those of the registers and of the
        patches by rows.

        **Arguments:**

        - `height`, `width`: the numbers of patches along each side.
        - `prefix_tokens`: the number of tokens before the patches: the class token and a square
          number of registers.

        **Raises** `ValueError` if `prefix_tokens - 1` is not a square number.
        """
        side = round((prefix_tokens - 1) ** 0.5)
        if 1 + side**2 != prefix_tokens:
            raise ValueError(f"prefix_tokens must be 1 and a square number: got {prefix_tokens}")
        registers = self.angles(self.reg_freqs, side, side, side)
        patches = self.angles(self.freqs, height, width, self.length)
        return make_rotation(jnp.concatenate([registers, patches]), 1, rotate_interleaved)

    @staticmethod
    def angles(
        freqs: Float[Array, " quarter"], height: Size, width: Size, length: int
    ) -> Float[Array, "patches head_dim"]:
        """Return the angles of the patches of a grid by rows, for each channel.

        **Arguments:**

        - `freqs`: the angle of a step, for each pair of channels of one axis.
        - `height`, `width`: the numbers of patches along each side.
        - `length`: the number of steps over which the patches are spread along each axis.
        """
        freqs = jax.lax.stop_gradient(freqs).astype(jnp.float32)
        sides = (patch_indices(side) / side * length for side in (height, width))
        angles = grid_positions(*sides)[..., None] * freqs
        return jnp.repeat(angles.reshape(height * width, 2 * freqs.shape[0]), 2, axis=-1)


RoPE: TypeAlias = AxialRoPE | GridRoPE


def period_exponents(head_dim: int) -> Float[Array, " quarter"]:
    """Return `2k / (head_dim / 2)` for `k < head_dim / 4`. **Raises** `ValueError` if `head_dim` is
    not a multiple of 4."""
    if head_dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4 (two axes, two halves): {head_dim}")
    return 2 * jnp.arange(head_dim // 4, dtype=jnp.float32) / (head_dim // 2)


def patch_indices(side: Size) -> Float[Array, " side"]:
    """Return the indices 0, 1, … of the patches along a side, as floats."""
    return jnp.arange(side, dtype=jnp.float32)


def grid_positions(
    rows: Float[Array, " height"], columns: Float[Array, " width"]
) -> Float[Array, "height width 2"]:
    """Return the (row, column) of every patch, where `rows` and `columns` are the coordinates along
    each axis."""
    return jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), axis=-1)


def make_rotation(
    angles: Float[Array, "positions head_dim"], unrotated: int, rotate: Rotate
) -> Rotation:
    """Return the rotation of all tokens: `unrotated` tokens with the angle 0, then the tokens with
    these angles.

    A single multiplication then serves all tokens. `rotate` determines which channels are a pair.
    """
    zeros = jnp.zeros((unrotated, angles.shape[-1]), angles.dtype)
    angles = jnp.concatenate([zeros, angles])
    return Rotation(jnp.sin(angles), jnp.cos(angles), rotate)


Queries: TypeAlias = Float[Array, "heads queries head_dim"]
Keys: TypeAlias = Float[Array, "heads keys head_dim"]
Mask: TypeAlias = Bool[Array, "#queries keys"]
"""Mask that is True for the keys that each query may attend to. A single row is for all queries."""


class Attention(eqx.Module):
    """Multi-head self-attention: `proj(softmax(Q Kᵀ / √head_dim) V)`, where `Q, K, V = qkv(x)`.

    The rows of `qkv` are those of queries, then those of keys and of values, each head by head.
    Queries and keys may be normalised, and are then rotated by their positions.

    **Example:**

        attention = Attention(384, heads=6, qkv_bias=True, qk_norm=None, key=jax.random.key(0))
        rotation = AxialRoPE(head_dim=64, base=100.0)(14, 14, prefix_tokens=0)
        y = attention(x, rotation)  # x and y are [14 * 14, 384]

    Sources: Vaswani et al., 2017, arXiv:1706.03762; for the norms of queries and keys Dehghani et
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

        - `dim`: the number of channels of a token.
        - `heads`: the number of heads, each of which has `dim / heads` channels.
        - `qkv_bias`: whether the projection to queries, keys and values has a bias.
        - `qk_norm`: a function that returns a norm over `head_dim` channels, for queries and for
          keys; None for no norms.

        **Raises** `ValueError` if `dim` is not a multiple of `heads`.
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
        """Return the tokens after attention.

        **Arguments:**

        - `x`: the tokens.
        - `rotation`: the rotation of queries and keys; None if they are not rotated.
        - `mask`: `[tokens, tokens]` or `[1, tokens]`, True where the token of the row (query) may
          attend to that of the column (key); None if all tokens attend to all.
        """
        return self.with_weights(x, rotation, mask)[0]

    def with_weights(
        self,
        x: Float[Array, "tokens dim"],
        rotation: Rotation | None = None,
        mask: Mask | None = None,
    ) -> tuple[Float[Array, "tokens dim"], Float[Array, "heads tokens tokens"]]:
        """Return the tokens after attention, and the attention weights of each token (query) for
        each token (key).

        `rotation` rotates queries and keys; None leaves them unrotated. `mask` is as in a call.
        """
        q, k, v = self.operands(x, rotation)
        weights = attention_weights(q, k, mask)
        return pointwise(self.proj, weighted_means(weights, v)), weights

    def operands(
        self, x: Float[Array, "tokens dim"], rotation: Rotation | None = None
    ) -> tuple[Queries, Keys, Keys]:
        """Return the queries, keys and values of all heads, after the norms and the rotation of
        queries and keys. `rotation` is None if they are not rotated."""
        tokens, dim = x.shape
        qkv = pointwise(self.qkv, x).reshape(tokens, 3, self.heads, dim // self.heads)
        q, k, v = qkv.transpose(1, 2, 0, 3)
        if self.q_norm is not None and self.k_norm is not None:
            q, k = pointwise(self.q_norm, q), pointwise(self.k_norm, k)
        if rotation is not None:
            q, k = rotation(q), rotation(k)
        return q, k, v


def attend(q: Queries, k: Keys, v: Keys, mask: Mask | None = None) -> Float[Array, "queries dim"]:
    """Return `softmax(Q Kᵀ / √head_dim) V` of every head, with the results of the heads
    concatenated.

    The softmax of a query is over the keys for which the mask is True; without a mask, over all
    keys.
    """
    return weighted_means(attention_weights(q, k, mask), v)


def attention_weights(
    q: Queries, k: Keys, mask: Mask | None = None
) -> Float[Array, "heads queries keys"]:
    """Return `softmax(Q Kᵀ / √head_dim)` of every head.

    The softmax of a query is over the keys for which the mask is True; without a mask, over all
    keys. A query that may attend to no key has equal weights for all keys.
    """
    scores = jnp.einsum("hqd,hkd->hqk", q, k) * q.shape[-1] ** -0.5
    # The softmax is computed in float32, whatever the dtype of the parameters.
    scores = scores.astype(jnp.float32)
    if mask is not None:
        # With a finite number, a query that may attend to no key has equal weights instead of NaN.
        scores = jnp.where(mask, scores, jnp.finfo(jnp.float32).min)
    return jax.nn.softmax(scores, axis=-1).astype(q.dtype)


def weighted_means(
    weights: Float[Array, "heads queries keys"], v: Keys
) -> Float[Array, "queries dim"]:
    """Return the means of the values, weighted by the attention weights, with the results of the
    heads concatenated."""
    heads, queries, _ = weights.shape
    out = jnp.einsum("hqk,hkd->hqd", weights, v)
    return out.transpose(1, 0, 2).reshape(queries, heads * v.shape[-1])
