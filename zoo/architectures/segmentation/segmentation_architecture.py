"""Architecture records of segmentation networks: mask transformers, and linear classifiers of
patches."""

from collections.abc import Callable
from typing import Any

from zoo.architectures.architecture import (
    Architecture,
)
from zoo.architectures.config_fields import Shapes, with_sizes
from zoo.architectures.config_settings import Template, TransformersClass, write_settings
from zoo.architectures.parts.layer_options import RopePeriods
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit.vit_settings import DINOV3_SETTINGS


def _mask_network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.segmentation.segmentation_network import Eomt

    return Eomt


def _mask_sizes(config: MaskConfig, shapes: Shapes) -> MaskConfig | None:
    """Return the configuration with the sizes of a checkpoint; None if a leaf is missing or a size
    is out of bounds.

    Return None also for a gated feed-forward network, because transformers then has another
    activation in the heads.
    """
    return with_sizes(config, shapes) if config.backbone.ffn == "mlp" else None


def _backbone_settings(config: MaskConfig) -> dict[str, Any]:
    """Return transformers' settings of the backbone, which EoMT's file has at the top level."""
    assert isinstance(config.backbone.rope, RopePeriods)
    rope = {"rope_theta": config.backbone.rope.base, "rope_type": "default"}
    return write_settings(config.backbone, DINOV3_SETTINGS) | {"rope_parameters": rope}


SETTINGS: Template = (_backbone_settings, "num_queries", "num_blocks", "num_upscale_blocks")

EOMT = TransformersClass(
    "EomtDinov3ForUniversalSegmentation",
    "eomt_dinov3",
    SETTINGS,
    auto_class="AutoModelForUniversalSegmentation",
    output_names=("class_queries_logits", "masks_queries_logits"),
    has_key_bias_setting=True,
    square_only=True,
)


MASKS = Architecture(
    config=MaskConfig,
    network=_mask_network_class,
    read_sizes=_mask_sizes,
    transformers_class=lambda config: EOMT,
    transformers_classes=(EOMT,),
)


def _segmenter_network_class() -> Callable[..., Any]:
    """Return the class of the network. Its module, and with it JAX, is imported only now."""
    from zoo.architectures.segmentation.segmentation_network import Segmenter

    return Segmenter


SEGMENTER = Architecture(
    config=SegmenterConfig,
    network=_segmenter_network_class,
)
