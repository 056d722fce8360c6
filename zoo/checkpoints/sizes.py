"""The sizes of a network, read off the shapes of its leaves in a checkpoint."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count, takewhile
from typing import Literal

from weights.initializers import Shape
from zoo.models.config import Config, ConvNeXtConfig, RopePeriods, ViTConfig

Shapes = Callable[[str], Shape | None]
"""The shape that a checkpoint gives a leaf; None where it has none."""

FEED_FORWARD: dict[Literal["mlp", "swiglu", "swiglu_fused"], str] = {
    "mlp": "fc1",
    "swiglu": "w1",
    "swiglu_fused": "w12",
}
"""The first layer of each kind of feed-forward network."""


def read_sizes(config: Config, shapes: Shapes) -> Config | None:
    """A network of the same architecture in the sizes that a checkpoint has; None where it has not
    all that tells them. Heads are kept where no leaf tells how many there are."""
    if isinstance(config, ConvNeXtConfig):
        return _convnext(config, shapes)
    return _vit(config, shapes)


def _convnext(config: ConvNeXtConfig, shapes: Shapes) -> Config | None:
    stages = range(len(config.dims))
    dims = [_rows(shapes, f"blocks.{stage}.downsample.conv.bias") for stage in stages]
    depths = [_counted(shapes, f"blocks.{stage}.blocks.{{}}.norm.weight") for stage in stages]
    if 0 in dims or 0 in depths:
        return None
    found = replace(config, depths=_four(depths), dims=_four(dims))
    return with_head(found, shapes("head.weight"))


def _four(numbers: list[int]) -> tuple[int, int, int, int]:
    first, second, third, fourth = numbers
    return first, second, third, fourth


def _vit(config: ViTConfig, shapes: Shapes) -> Config | None:
    patch = shapes("patch_embed.proj.weight") or ()
    found = {kind: shapes(f"blocks.0.mlp.{layer}.weight") for kind, layer in FEED_FORWARD.items()}
    hidden = {kind: shape[0] for kind, shape in found.items() if shape and len(shape) == 2}
    if len(patch) != 4 or 0 in patch or len(hidden) != 1:
        return None
    ((kind, width),) = hidden.items()
    found_config = replace(
        config,
        dim=patch[0],
        depth=_counted(shapes, "blocks.{}.prenorm.weight"),
        heads=_heads(config, patch[0], shapes),
        ffn=kind,
        hidden=width // 2 if kind == "swiglu_fused" else width,
        patch_size=patch[2],
        registers=_rows(shapes, "reg_tokens"),
    )
    return with_head(_grid(found_config, shapes), shapes("head.weight"))


def _grid(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """With the grid of its learned positions."""
    where = config.positions
    if where is None:
        return config
    side = math.isqrt(max(0, _rows(shapes, "global_pos_embed.weight") - where.cls_token))
    return replace(config, positions=replace(where, grid=side))


def with_head(config: Config, head: Shape | None) -> Config:
    """With the classes of a linear layer, and the tokens that it takes if those are several."""
    classes, width = head if head and len(head) == 2 else (0, config.dim)
    if isinstance(config, ConvNeXtConfig):
        return replace(config, classes=classes)
    tokens = config.head_tokens if width == config.dim else width // config.dim - 1
    return replace(config, classes=classes, head_tokens=tokens if classes else None)


def _heads(config: ViTConfig, dim: int, shapes: Shapes) -> int:
    """Rotary periods are as many as a quarter of a head's channels."""
    periods = shapes("local_pos_embed.periods")
    if isinstance(config.rope, RopePeriods) and periods and periods[0]:
        return dim // (4 * periods[0])
    return config.heads


def _rows(shapes: Shapes, leaf: str) -> int:
    return (shapes(leaf) or (0,))[0]


def _counted(shapes: Shapes, leaf: str) -> int:
    """How many leaves of numbered names there are, from 0 on."""
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))
