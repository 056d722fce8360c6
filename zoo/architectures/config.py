"""Hyperparameters of networks of any kind: plain data without JAX.

Defaults are stated in configurations and nowhere else: layers are told their arguments, by the same
names.
"""

from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.dual.dual_config import DualConfig
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig
from zoo.architectures.text.text_config import TextConfig
from zoo.architectures.vit.vit_config import ViTConfig

FeatureConfig = ViTConfig | ConvNeXtConfig
"""Networks that give features, and logits if they are classifiers."""

Config = FeatureConfig | DepthConfig | MaskConfig | SegmenterConfig | TextConfig | DualConfig


def scores_of(config: object) -> str:
    """What makes answers of a network's logits."""
    return config.scores if isinstance(config, FeatureConfig) else "softmax"
