"""The sizes of a network, read off the shapes of its leaves in a checkpoint."""

import math
from collections.abc import Callable
from dataclasses import replace
from itertools import count, takewhile
from typing import Literal

from weights.initializers import Shape
from zoo.architectures.config import Config, FeatureConfig
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.parts.position_config import RopePeriods
from zoo.architectures.parts.top_config import TopBlocks
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.vit_config import ViTConfig

Shapes = Callable[[str], Shape | None]
"""The shape that a checkpoint gives a leaf; None where it has none."""

FEED_FORWARD: dict[Literal["mlp", "swiglu", "swiglu_fused"], tuple[str, str, int]] = {
    "mlp": ("fc1", "fc2", 1),
    "swiglu": ("w1", "w3", 1),
    "swiglu_fused": ("w12", "w3", 2),
}
"""The first and the last layer of each kind of feed-forward network, and how many times as many
rows the one has as the other has columns."""


def read_sizes(config: Config, shapes: Shapes) -> Config | None:
    """A network of the same architecture in the sizes that a checkpoint has; None where it has not
    all that tells them. Heads are kept where no leaf tells how many there are."""
    if isinstance(config, ConvNeXtConfig):
        return _convnext(config, shapes)
    if isinstance(config, ViTConfig):
        return _vit(config, shapes)
    if isinstance(config, TextConfig):
        return _text(config, shapes)
    if isinstance(config, DualConfig):
        vision = _vit(config.vision, lambda leaf: shapes(f"vision.{leaf}"))
        words = _text(config.words, lambda leaf: shapes(f"words.{leaf}"))
        return replace(config, vision=vision, words=words) if vision and words else None
    backbone = _vit(config.backbone, lambda leaf: shapes(f"backbone.{leaf}"))
    if backbone is None:
        return None
    if isinstance(config, DepthConfig):
        return _depth(replace(config, backbone=backbone), shapes)
    if isinstance(config, MaskConfig):
        return _masks(replace(config, backbone=backbone), shapes)
    return _segmenter(replace(config, backbone=backbone), shapes)


def _convnext(config: ConvNeXtConfig, shapes: Shapes) -> Config | None:
    stages = range(len(config.dims))
    dims = [_rows(shapes, f"blocks.{stage}.downsample.conv.bias") for stage in stages]
    depths = [_counted(shapes, f"blocks.{stage}.blocks.{{}}.norm.weight") for stage in stages]
    if 0 in dims or 0 in depths:
        return None
    found = replace(config, depths=_four(depths), dims=_four(dims))
    return with_head(found, shapes("head.weight"))


def _depth(config: DepthConfig, shapes: Shapes) -> Config | None:
    channels = [_rows(shapes, f"decoder.convs.{i}.weight", axis=1) for i in range(4)]
    fused, hidden = (_rows(shapes, f"decoder.{conv}.weight", axis=1) for conv in ("conv1", "conv3"))
    if 0 in (*channels, fused, hidden):
        return None
    return replace(config, channels=_four(channels), fused=fused, hidden=hidden)


def _masks(config: MaskConfig, shapes: Shapes) -> Config | None:
    found = replace(
        config,
        queries=_rows(shapes, "queries"),
        query_blocks=_rows(shapes, "attn_mask_probs"),
        classes=_rows(shapes, "class_head.weight") - 1,
        upscalings=_counted(shapes, "upscale.{}.norm.weight"),
    )
    # transformers has another function in the heads of one with gates.
    return found if found.classes > 0 and config.backbone.ffn == "mlp" else None


def _segmenter(config: SegmenterConfig, shapes: Shapes) -> Config | None:
    read, classes = _rows(shapes, "batch_norm.weight"), _rows(shapes, "head.weight")
    return replace(config, layers=read // config.dim, classes=classes) if classes else None


def _text(config: TextConfig, shapes: Shapes) -> TextConfig | None:
    words, hidden = shapes("token_embed.weight") or (), _hidden(shapes, *FEED_FORWARD["mlp"])
    # Sinusoids are no leaves.
    tokens = _rows(shapes, "pos_embed") if config.positions == "learned" else config.tokens
    if len(words) != 2 or not tokens or not hidden:
        return None
    return replace(
        config,
        dim=words[1],
        depth=_counted(shapes, "blocks.{}.prenorm.weight"),
        hidden=hidden,
        projection=None if config.projection is None else _rows(shapes, "head.weight"),
        vocabulary=words[0],
        tokens=tokens,
    )


def _four(numbers: list[int]) -> tuple[int, int, int, int]:
    first, second, third, fourth = numbers
    return first, second, third, fourth


def _vit(config: ViTConfig, shapes: Shapes) -> ViTConfig | None:
    patch = shapes("patch_embed.proj.weight") or ()
    hidden = {kind: _hidden(shapes, *layers) for kind, layers in FEED_FORWARD.items()}
    found = [(kind, width) for kind, width in hidden.items() if width]
    if len(patch) != 4 or 0 in patch or len(found) != 1:
        return None
    ((kind, width),) = found
    found_config = replace(
        config,
        dim=patch[0],
        depth=_counted(shapes, "blocks.{}.prenorm.weight"),
        heads=_heads(config, patch[0], shapes),
        ffn=kind,
        hidden=width,
        patch_size=patch[2],
        registers=_rows(shapes, "reg_tokens"),
        top=config.top and _top(config.top, shapes),
    )
    return _with_head(_grid(found_config, shapes), shapes("head.weight"))


def _top(config: TopBlocks, shapes: Shapes) -> TopBlocks:
    depth = _counted(shapes, "top.{}.prenorm.weight")
    return replace(config, depth=depth, hidden=_rows(shapes, "top.0.mlp.w1.weight"))


def _hidden(shapes: Shapes, first: str, last: str, times: int) -> int:
    """The channels between two layers of a block; 0 where they are not those."""
    one, other = (shapes(f"blocks.0.mlp.{layer}.weight") or () for layer in (first, last))
    fitting = len(one) == len(other) == 2 and one[0] == times * other[1]
    return other[1] if fitting else 0


def _grid(config: ViTConfig, shapes: Shapes) -> ViTConfig:
    """With the grid of its learned positions."""
    where = config.positions
    if where is None:
        return config
    side = math.isqrt(max(0, _rows(shapes, "global_pos_embed.weight") - where.cls_token))
    return replace(config, positions=replace(where, grid=side))


def with_head(config: FeatureConfig, head: Shape | None) -> FeatureConfig:
    """With the classes of a linear layer, and the tokens that it takes if those are several."""
    if isinstance(config, ViTConfig):
        return _with_head(config, head)
    return replace(config, classes=head[0] if head and len(head) == 2 else 0)


def _with_head(config: ViTConfig, head: Shape | None) -> ViTConfig:
    classes, width = head if head and len(head) == 2 else (0, config.dim)
    tokens = config.head_tokens if width == config.dim else width // config.dim - 1
    return replace(config, classes=classes, head_tokens=tokens if classes else None)


def _heads(config: ViTConfig, dim: int, shapes: Shapes) -> int:
    """Rotary periods are as many as a quarter of a head's channels."""
    periods = shapes("local_pos_embed.periods")
    if isinstance(config.rope, RopePeriods) and periods and periods[0]:
        return dim // (4 * periods[0])
    return config.heads


def _rows(shapes: Shapes, leaf: str, axis: int = 0) -> int:
    return (shapes(leaf) or (0, 0))[axis]


def _counted(shapes: Shapes, leaf: str) -> int:
    """How many leaves of numbered names there are, from 0 on."""
    return sum(1 for _ in takewhile(lambda number: shapes(leaf.format(number)), count()))
