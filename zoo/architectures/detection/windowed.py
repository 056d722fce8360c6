"""A vision transformer that attends within windows of a picture in most of its blocks."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from zoo.architectures.parts.block import Block
from zoo.architectures.parts.layers import Size, pointwise
from zoo.architectures.vit.vit_network import VisionTransformer

Windows = Float[Array, "all_windows window_tokens dim"]


def windowed_maps(
    vit: VisionTransformer,
    pixel_values: Float[Array, "3 H W"],
    layers: Sequence[int],
    windows: int,
    windowed: Sequence[int],
) -> Float[Array, "channels height width"]:
    """The normed patches of some blocks on their grid, the channels of one behind another's.

    Every window has a class token of its own. Blocks that are not `windowed` attend to all windows.

    **Arguments:** the transformer, the image, blocks counted from 1, windows along a side, and the
    blocks that attend within windows, counted from 0.

    **Raises** `ValueError` if the windows do not fill the image.

    Source: `RfDetrDinov2Backbone` of transformers, which takes a window's height for its width:
    the same for square images.
    """
    step = vit.stride * windows
    if any(side % step for side in pixel_values.shape[1:]):
        raise ValueError(
            f"sides must be multiples of {step}, {windows} windows of patches of {vit.stride} "
            f"pixels: got {pixel_values.shape[1:]}"
        )
    tokens, height, width = vit.tokens(vit.patch_embed(pixel_values))
    x = _cut(tokens, vit.prefix_tokens, height, width, windows)
    maps = []
    for number, block in enumerate(vit.blocks[: max(layers)], start=1):
        x = jax.vmap(block)(x) if number - 1 in windowed else _in_all(block, x)
        if number in layers:
            normed = pointwise(vit.norm, x)[:, vit.prefix_tokens :]
            maps.append(_joined(normed, height, width, windows))
    return jnp.concatenate(maps)


def _in_all(block: Block, x: Windows) -> Windows:
    """What a block makes of the tokens of all windows together."""
    return block(x.reshape(-1, x.shape[-1])).reshape(x.shape)


def _cut(
    tokens: Float[Array, "tokens dim"], prefix: int, height: Size, width: Size, windows: int
) -> Windows:
    """The patches of each window by rows, behind the tokens in front of all."""
    dim = tokens.shape[-1]
    rows, columns = height // windows, width // windows
    patches = tokens[prefix:].reshape(windows, rows, windows, columns, dim)
    patches = patches.transpose(0, 2, 1, 3, 4).reshape(windows**2, rows * columns, dim)
    first = jnp.broadcast_to(tokens[:prefix], (windows**2, prefix, dim))
    return jnp.concatenate([first, patches], axis=1)


def _joined(
    patches: Windows, height: Size, width: Size, windows: int
) -> Float[Array, "dim height width"]:
    """The patches of all windows on the grid of the picture."""
    dim = patches.shape[-1]
    x = patches.reshape(windows, windows, height // windows, width // windows, dim)
    return x.transpose(4, 0, 2, 1, 3).reshape(dim, height, width)
