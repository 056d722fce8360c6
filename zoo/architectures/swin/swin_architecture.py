"""Record of Swin V2: what the zoo asks of this kind of network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count, takewhile
from typing import TYPE_CHECKING, Any

from zoo.architectures.architecture import (
    CheckpointFacts,
    Shapes,
    TransformersClass,
    count_numbered,
    count_rows,
    staged_architecture,
    staged_with_head,
    told_of_blocks,
)
from zoo.architectures.common_config import MOST
from zoo.architectures.parts.layer_options import CALLED
from zoo.architectures.swin.swin_config import SwinConfig, Two

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings

BLOCK = "blocks.{}.blocks.{}."


def _network() -> Callable[..., Any]:
    from zoo.architectures.swin.swin_network import SwinTransformer

    return SwinTransformer


def _sizes(config: SwinConfig, shapes: Shapes) -> SwinConfig | None:
    def depth(stage: int) -> int:
        return count_numbered(shapes, f"blocks.{stage}.blocks.{{}}.norm1.weight")

    patch = shapes("patch_embed.proj.weight") or ()
    depths = tuple(takewhile(bool, map(depth, count())))
    first = BLOCK.format(0, 0)
    hidden = count_rows(shapes, f"{first}mlp.fc1.weight")
    if len(patch) != 4 or 0 in patch or not depths or not hidden:
        return None
    firsts = [BLOCK.format(stage, 0) for stage in range(len(depths))]
    earlier = config.pretrained if len(config.pretrained) >= len(depths) else (0,) * len(depths)
    sized = replace(
        config,
        embed=patch[0],
        depths=depths,
        heads=tuple(count_rows(shapes, f"{block}attn.logit_scale") for block in firsts),
        pretrained=earlier,
        ratio=hidden / patch[0],
        patch_size=patch[2],
        qkv_bias=shapes(f"{first}attn.q_bias") is not None,
    )
    return staged_with_head(sized, shapes("head.weight"))


def _free(config: SwinConfig) -> SwinConfig:
    common = replace(config, classes=0, norm_eps=0.0, activation="gelu")
    return replace(common, scores="softmax", qkv_bias=True)


def _unsized(config: SwinConfig) -> SwinConfig:
    no_stages = replace(config, embed=0, depths=(), heads=(), pretrained=(), ratio=0.0)
    return replace(no_stages, window=0, grid=(0, 0), patch_size=0)


def _settled(config: SwinConfig, beside: CheckpointFacts) -> SwinConfig:
    settings = beside.settings
    network = settings.network if settings else None
    config = replace(
        config,
        **told_of_blocks(network, config.activation, config.norm_eps),
        scores=beside.scores(config.classes),
    )
    return config if settings is None else replace(config, **_windows_told(config, settings))


def _windows_told(config: SwinConfig, settings: Settings) -> dict[str, Any]:
    """What `config.json` says of windows and of the images of training: transformers in settings of
    their own, timm among the arguments of its function."""
    extra = settings.network.model_extra or {}
    arguments = settings.model_args or extra
    windows: dict[str, Any] = {}
    if window := _whole(arguments.get("window_size")):
        windows["window"] = window
    if len(earlier := _several(arguments.get("pretrained_window_sizes"))) >= len(config.depths):
        windows["pretrained"] = earlier
    pictures = settings.pretrained_cfg.input_size[1:] if settings.pretrained_cfg else ()
    if image := _image(arguments.get("image_size", arguments.get("img_size", pictures))):
        windows["grid"] = (image[0] // config.patch_size, image[1] // config.patch_size)
    return windows


def _whole(value: object) -> int:
    return value if type(value) is int and 0 <= value <= MOST else 0


def _several(value: object) -> tuple[int, ...]:
    """Whole numbers of a list, all of which are."""
    values = value if isinstance(value, list | tuple) else ()
    return tuple(map(_whole, values)) if all(type(each) is int for each in values) else ()


def _image(value: object) -> Two | None:
    sides = (_whole(value),) * 2 if isinstance(value, int) else _several(value)
    return (sides[0], sides[1]) if len(sides) == 2 and 0 not in sides else None


def _untold(config: SwinConfig, settings: Settings | None) -> str:
    if settings is not None and "window" in _windows_told(config, settings):
        return ""
    return 'how large its windows are. Write {"window_size": NUMBER, "image_size": NUMBER}'


def _settings(config: SwinConfig) -> dict[str, Any]:
    height, width = config.native
    return {
        "embed_dim": config.embed,
        "depths": list(config.depths),
        "num_heads": list(config.heads),
        "window_size": config.window,
        "pretrained_window_sizes": list(config.pretrained),
        "mlp_ratio": config.ratio,
        "qkv_bias": config.qkv_bias,
        "hidden_act": CALLED[config.activation].transformers[0],
        "layer_norm_eps": config.norm_eps,
        "patch_size": config.patch_size,
        "image_size": height if height == width else [height, width],
        "use_absolute_embeddings": False,
    }


FEATURES = TransformersClass("Swinv2Model", "swinv2", _settings)
CLASSIFIER = TransformersClass("Swinv2ForImageClassification", "swinv2", _settings)


SWIN = staged_architecture(
    config=SwinConfig,
    network=_network,
    sizes=_sizes,
    free=_free,
    unsized=_unsized,
    settled=_settled,
    untold=_untold,
    transformers=lambda config: CLASSIFIER if config.classes else FEATURES,
    classes=(FEATURES, CLASSIFIER),
)
