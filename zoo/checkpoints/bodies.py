"""A network without what somebody's own may have otherwise."""

from dataclasses import replace

from zoo.architectures.config import Config
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.backbone_config import OnBackbone
from zoo.architectures.vit.vit_config import ViTConfig


def body(config: Config) -> Config:
    """A network without what somebody's own may have otherwise: classes, grid, details."""
    if isinstance(config, ViTConfig):
        return vit_body(config)
    if isinstance(config, OnBackbone):
        return replace(config, backbone=vit_body(config.backbone))
    if isinstance(config, DualConfig):
        return replace(config, vision=vit_body(config.vision), words=text_body(config.words))
    if isinstance(config, TextConfig):
        return text_body(config)
    return replace(
        config, classes=0, norm_eps=0.0, activation="gelu", final_norm_eps=None, scores="softmax"
    )


def vit_body(config: ViTConfig) -> ViTConfig:
    """The same of a vision transformer."""
    common = replace(
        config, classes=0, norm_eps=0.0, activation="gelu", head_tokens=None, scores="softmax"
    )
    where = common.positions and replace(common.positions, grid=0)
    return replace(common, positions=where)


def text_body(config: TextConfig) -> TextConfig:
    """The same of a transformer for texts."""
    return replace(config, norm_eps=0.0, activation="gelu")
