"""Self-attention over the tokens of one image, with rotary position embeddings (RoPE).

A layer of rotary positions makes the `Rotation` of a grid, once for all blocks, and attention
applies it.

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
    """A quarter turn of each pair (i, i + head_dim / 2): [a, b, c, d] → [-c, -d, a, b]."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-second, first], axis=-1)


def rotate_interleaved(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
    """A quarter turn of each pair of neighbours: [a, b, c, d] → [-b, a, -d, c]."""
    pairs = x.reshape(*x.shape[:-1], -1, 2)
    return jnp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(x.shape)


class Rotation(eqx.Module):
    """Rotates each pair of channels by its token's angle: `x · cos + rotate(x) · sin`.

    `rotate` says which channels are a pair: it is `rotate_half` or `rotate_interleaved`.
    """

    sin: Float[Array, "tokens head_dim"]
    cos: Float[Array, "tokens head_dim"]
    rotate: Rotate = eqx.field(static=True)

    def __call__(
        self, x: Float[Array, "heads tokens head_dim"]
    ) -> Float[Array, "heads tokens head_dim"]:
        """**Arguments:** queries or keys. **Returns** them rotated, in their own type."""
        return x * self.cos.astype(x.dtype) + self.rotate(x) * self.sin.astype(x.dtype)


class AxialRoPE(eqx.Module):
    """DINOv3's rotary embedding in two dimensions.

    The centre of patch `i` of `n` along an axis has the coordinate `2 (i + 0.5) / n - 1`, and
    its angles are `2π · coordinate / periods`, the height's first and the width's after them,
    where `periods[k] = base^(2k / (head_dim / 2))` for `k < head_dim / 4`.
    The periods are a leaf and not recomputed: published files hold them rounded to bfloat16,
    and the exact ones move the features by 3e-3.

    Source: `dinov3/layers/rope_position_encoding.py` of facebookresearch/dinov3.
    """

    periods: Float[Array, " quarter"]

    def __init__(self, head_dim: int, *, base: float):
        """**Arguments:** channels of an attention head, a multiple of 4; the largest period."""
        self.periods = base ** exponents(head_dim)

    def __call__(self, height: Size, width: Size, prefix_tokens: int) -> Rotation:
        """**Arguments:** patches along each side; how many tokens in front have no position.

        **Returns** the rotation of those tokens, which is none, and of the patches by rows.
        """
        # Angles want float32, whatever the parameters' type.
        periods = jax.lax.stop_gradient(self.periods).astype(jnp.float32)
        # Not arange(0.5, n): that needs to know n while tracing.
        sides = (2 * ((steps(side) + 0.5) / side) - 1 for side in (height, width))
        patches = positions(*sides).reshape(height * width, 2)
        angles = 2 * jnp.pi * patches[:, :, None] / periods
        angles = angles.reshape(height * width, 2 * periods.shape[0])
        angles = jnp.concatenate([angles, angles], axis=-1)
        return rotation(angles, prefix_tokens, rotate_half)


class GridRoPE(eqx.Module):
    """ViT-5's rotary embedding: `angle = row or column / n · length · freqs`.

    Row and column of `n` are scaled to the grid of training, and `freqs[k] =
    theta^(-2k / (head_dim / 2))` for `k < head_dim / 4`. The class token is rotated by nothing, the
    registers as the patches of a small square image with frequencies of their own, `reg_freqs`.

    Source: `rope.py` of wangf3014/ViT-5 (`VisionRotaryEmbedding`).
    """

    freqs: Float[Array, " quarter"]
    reg_freqs: Float[Array, " quarter"]
    length: int = eqx.field(static=True)

    def __init__(self, head_dim: int, *, length: int, theta: float, register_theta: float):
        """**Arguments:** channels of an attention head, a multiple of 4; else as `RopeGrid`."""
        self.freqs = theta ** -exponents(head_dim)
        self.reg_freqs = register_theta ** -exponents(head_dim)
        self.length = length

    def __call__(self, height: Size, width: Size, prefix_tokens: int) -> Rotation:
        """**Arguments:** patches along each side; the class token and a square of registers.

        **Returns** the rotation of the class token, of the registers and of the patches by rows.
        """
        side = round((prefix_tokens - 1) ** 0.5)
        if 1 + side**2 != prefix_tokens:
            raise ValueError(f"prefix_tokens must be 1 and a square number: got {prefix_tokens}")
        registers = self.angles(self.reg_freqs, side, side, side)
        patches = self.angles(self.freqs, height, width, self.length)
        return rotation(jnp.concatenate([registers, patches]), 1, rotate_interleaved)

    @staticmethod
    def angles(
        freqs: Float[Array, " quarter"], height: Size, width: Size, length: int
    ) -> Float[Array, "patches head_dim"]:
        """Angles of a grid that is stretched over `length` steps along each axis."""
        freqs = jax.lax.stop_gradient(freqs).astype(jnp.float32)
        sides = (steps(side) / side * length for side in (height, width))
        angles = positions(*sides)[..., None] * freqs
        return jnp.repeat(angles.reshape(height * width, 2 * freqs.shape[0]), 2, axis=-1)


RoPE: TypeAlias = AxialRoPE | GridRoPE


def exponents(head_dim: int) -> Float[Array, " quarter"]:
    """`2k / (head_dim / 2)` for `k < head_dim / 4`."""
    if head_dim % 4:
        raise ValueError(f"head_dim must be a multiple of 4 (two axes, two halves): {head_dim}")
    return 2 * jnp.arange(head_dim // 4, dtype=jnp.float32) / (head_dim // 2)


def steps(side: Size) -> Float[Array, " side"]:
    """0, 1, … for the patches along a side."""
    return jnp.arange(side, dtype=jnp.float32)


def positions(
    rows: Float[Array, " height"], columns: Float[Array, " width"]
) -> Float[Array, "height width 2"]:
    """(row, column) of every patch."""
    return jnp.stack(jnp.meshgrid(rows, columns, indexing="ij"), axis=-1)


def rotation(
    angles: Float[Array, "positions head_dim"], unrotated: int, rotate: Rotate
) -> Rotation:
    """Rotation, by angle 0 for `unrotated` tokens in front, so that one multiplication serves them
    all."""
    zeros = jnp.zeros((unrotated, angles.shape[-1]), angles.dtype)
    angles = jnp.concatenate([zeros, angles])
    return Rotation(jnp.sin(angles), jnp.cos(angles), rotate)


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


def attend(q: Queries, k: Keys, v: Keys, mask: Mask | None = None) -> Float[Array, "queries dim"]:
    """**Returns** `softmax(Q Kᵀ / √head_dim) V` of every head, the heads side by side.

    A mask says over which keys the softmax is taken."""
    return mixed(attention_weights(q, k, mask), v)


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
