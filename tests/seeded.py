"""Models of the zoo with seeded weights, and small networks with all options of the published
ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

import zoo
from tests.synthetic import make_state
from weights import LazyTensor, bind
from weights.initializers import Float32
from weights.mapping import Naming, map_tensors, plan_leaves, source_shapes
from weights.random import random_weights
from zoo.architectures.architecture import Config
from zoo.architectures.base import Network
from zoo.architectures.builder import abstract
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.detection.detection_config import (
    DecoderConfig,
    DeimConfig,
    DetectionConfig,
    FinderConfig,
    PyramidConfig,
)
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.dual.naflex_config import NaFlexConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.swin.swin_config import SwinConfig
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.load import model_shapes

State = Mapping[str, Float32]

TINY7B = ViTConfig(
    dim=256, depth=3, heads=2, hidden=512, ffn="swiglu", qkv_bias=False, untied_norms=True
)
"""A small network with the options of DINOv3's 7B model and its head width of 128."""


def as_file(state: State) -> dict[str, LazyTensor]:
    """Return tensors in the form that a reader gives."""
    return {
        key: LazyTensor(value.shape, "float32", lambda value=value: value)
        for key, value in state.items()
    }


def state_of(config: Config, naming: Naming, seed: int) -> dict[str, Float32]:
    """Return a seeded checkpoint with the names of a naming, including tensors that its files hold
    twice."""
    keys = source_shapes(plan_leaves(naming.rules, model_shapes(config)))
    return make_state(keys, seed, copies=naming.find_copies(keys))


def leaves_of(config: Config, naming: Naming, state: State) -> dict[str, Float32]:
    """Return the leaves of a model that a checkpoint holds."""
    tensors = as_file(state)
    mapped = map_tensors(naming, plan_leaves(naming.rules, model_shapes(config)), tensors)
    return {path: tensor.read() for path, tensor in mapped.items()}


@lru_cache(maxsize=2)  # leaves of more large networks would take many gigabytes
def values_of(config: Config, seed: int = 1) -> dict[str, Float32]:
    """Return random leaves."""
    return dict(random_weights(model_shapes(config), seed).arrays)


def model_of(config: Config, seed: int = 1) -> Network:
    """Return a model with random leaves."""
    return bind(abstract(config), values_of(config, seed))


def nano(config: Config) -> Config:
    """Return the same network with few blocks and channels and all its options."""
    if isinstance(config, ConvNeXtConfig):
        return replace(config, depths=(1, 1, 2, 1), dims=(8, 16, 24, 32))
    if isinstance(config, SwinConfig):
        sizes = {"depths": (1, 2, 2, 1), "heads": (2, 2, 4, 4), "window": 3}
        return replace(config, embed=8, grid=(16, 24), classes=config.classes and 7, **sizes)
    if isinstance(config, DepthConfig):
        sizes = {"layers": (1, 2, 3, 4), "channels": (8, 12, 16, 20), "fused": 16, "hidden": 6}
        return replace(config, backbone=replace(nano(config.backbone), depth=4), **sizes)
    if isinstance(config, TextConfig):
        few = replace(config, dim=24, depth=2, heads=2, hidden=80, vocabulary=96)
        return replace(few, projection=None if config.projection is None else 32)
    if isinstance(config, DualConfig):
        vision, words = nano(config.vision), nano(config.words)
        # Vectors of both towers have as many channels, whichever layer makes those of texts.
        sized = "dim" if words.projection is None else "projection"
        return replace(config, vision=vision, words=replace(words, **{sized: vision.width}))
    if isinstance(config, MaskConfig):
        sizes = {"queries": 9, "query_blocks": 2, "classes": 7}
        return replace(config, backbone=replace(nano(config.backbone), depth=3), **sizes)
    if isinstance(config, DetectionConfig):
        backbone = replace(nano(config.backbone), depth=4, patch_size=8)
        decoder = DecoderConfig(32, 2, heads=2, sampling_heads=4, points=2, hidden=48)
        sizes = {"layers": (2, 4), "queries": 9, "classes": 7, "groups": 2, "narrow": 12}
        return replace(config, backbone=backbone, decoder=decoder, windows=2, **sizes)
    if isinstance(config, DeimConfig):
        backbone = replace(nano(config.backbone), depth=3)
        finder = FinderConfig(2, heads=2, hidden=20, points=(2, 3, 2), bins=6, top_k=2, quality=8)
        sizes = {"width": 32, "planes": 8, "layers": (1, 2, 3), "queries": 9, "classes": 7}
        pyramid = PyramidConfig(1, heads=2, hidden=40, narrow=8, bottlenecks=1)
        return replace(config, backbone=backbone, pyramid=pyramid, finder=finder, **sizes)
    if isinstance(config, SegmenterConfig):
        return replace(config, backbone=replace(nano(config.backbone), depth=5), classes=7)
    if isinstance(config, NaFlexConfig):
        return replace(config, dim=32, depth=2, heads=2, hidden=128, grid=4)
    positions = config.positions and replace(config.positions, grid=4)
    hidden = 88 if config.ffn == "swiglu_fused" else 128
    sizes = {"dim": 32, "depth": 2, "heads": 2, "hidden": hidden}
    sizes["projection"] = config.projection and 24
    sizes["head_blocks"] = config.head_blocks and replace(config.head_blocks, hidden=64)
    return replace(config, **sizes, positions=positions, classes=config.classes and 7)


def native(config: Config) -> tuple[int, int]:
    """Return the image size for which a model's positions were trained, or that of 14 x 14
    patches."""
    side = 224 if isinstance(config, ConvNeXtConfig) else 14 * config.stride
    return config.native_size or (side, side)


ONE_OF_EACH = (
    *("dinov3_vits16", "dinov3_convnext_tiny", "dinov2_vits14", "dinov2_vits14_reg"),
    *("tips_vits14_hr", "eupe_vitt16", "siglip2_vitb16_224", "clip_vitb32", "vit5_small"),
    *("vit_tiny_patch16_224", "deit_tiny_distilled_patch16_224", "depth_anything_v2_vits"),
    *("swinv2_base_window12to16_192to256", "eomt_dinov3_coco_panoptic_small_640"),
    *("dinov2_vits14_ade20k_ms", "vit_digits", "rf_detr_nano", "deimv2_s"),
)
"""Models of most families that take pictures. Small ones if their parts do not differ."""

REPRESENTATIVES = (
    *ONE_OF_EACH,
    *("dinov3_vit7b16", "dinov2_vitg14_reg", "tips_vitg14_lr", "depth_anything_v2_outdoor_vits"),
    "dinov2_vits14_voc2012_linear",
)
"""The models of `ONE_OF_EACH`, and models that are built in another way."""


def others(entry: ModelInfo) -> dict[str, Config]:
    """Return the networks that a model's publishers have in another form, by the names of their
    namings."""
    return {
        publication.naming.name: publication.config
        for publication in entry.published
        if publication.config != entry.config
    }


NETWORKS = {
    f"{name}-{naming}" if naming else name: config
    for name in REPRESENTATIVES
    for naming, config in {"": zoo.info(name).config, **others(zoo.info(name))}.items()
}
"""Every network of the representatives, by the model's name and the publisher of its weights."""
