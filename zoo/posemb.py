"""Rotary position embedding on a grid of image patches."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


class AxialRoPE(eqx.Module):
    """Sine and cosine tables of a two-dimensional rotary embedding, as DINOv3 has it.

    The centre of patch `i` of `n` along an axis has the coordinate `2 (i + 0.5) / n - 1`, and
    its angles are `2π · coordinate / periods`, the height's first and the width's after them.
    The periods are a leaf and not recomputed: published files hold them rounded to bfloat16,
    and the exact ones move the features by 3e-3.

    Source: `dinov3/layers/rope_position_encoding.py` of facebookresearch/dinov3.
    """

    periods: Float[Array, " quarter"]

    def __init__(self, head_dim: int, base: float):
        """Periods `base^(2k / (head_dim / 2))` for `k < head_dim / 4`."""
        if head_dim % 4:
            raise ValueError(f"head_dim must be a multiple of 4 (two axes, two halves): {head_dim}")
        exponent = 2 * jnp.arange(head_dim // 4, dtype=jnp.float32) / (head_dim // 2)
        self.periods = base**exponent

    def __call__(
        self, height: int, width: int, prefix: int
    ) -> tuple[Float[Array, "tokens head_dim"], Float[Array, "tokens head_dim"]]:
        """Tables for `prefix` tokens without a position, then `height · width` patches by rows.

        **Returns** (sine, cosine). A prefix token's rows are 0 and 1: it is rotated by nothing,
        and one multiplication serves the whole sequence.
        """
        # Angles want float32, whatever the parameters' type.
        periods = jax.lax.stop_gradient(self.periods).astype(jnp.float32)
        coordinates = patch_centres(height, width)
        angles = 2 * jnp.pi * coordinates[:, :, None] / periods
        angles = angles.reshape(height * width, 2 * periods.shape[0])
        angles = jnp.concatenate([angles, angles], axis=-1)
        still = jnp.zeros((prefix, angles.shape[-1]), angles.dtype)
        sin = jnp.concatenate([still, jnp.sin(angles)])
        cos = jnp.concatenate([still + 1, jnp.cos(angles)])
        return sin, cos


def patch_centres(height: int, width: int) -> Float[Array, "patches 2"]:
    """(row, column) of every patch centre in [-1, 1], by rows. Either size may be symbolic."""
    # Not arange(0.5, n): that needs to know n while tracing.
    rows = 2 * ((jnp.arange(height, dtype=jnp.float32) + 0.5) / height) - 1
    columns = 2 * ((jnp.arange(width, dtype=jnp.float32) + 0.5) / width) - 1
    grid = jnp.meshgrid(rows, columns, indexing="ij")
    return jnp.stack(grid, axis=-1).reshape(height * width, 2)


def rotate_half(x: Float[Array, "*lead head_dim"]) -> Float[Array, "*lead head_dim"]:
    """A quarter turn of each pair (i, i + head_dim / 2): [a, b] → [-b, a]."""
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([-second, first], axis=-1)


def apply_rope(
    x: Float[Array, "heads tokens head_dim"],
    sin: Float[Array, "tokens head_dim"],
    cos: Float[Array, "tokens head_dim"],
) -> Float[Array, "heads tokens head_dim"]:
    """Rotate each pair of channels by its token's angle (Su et al., 2021, arXiv:2104.09864)."""
    return x * cos + rotate_half(x) * sin
