"""Linear classifiers of patches, as everybody asks for them."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from zoo.architectures.architecture import Architecture, Shapes
from zoo.architectures.parts.common_config import PURPOSE_OF_AREAS
from zoo.architectures.read_shapes import count_rows
from zoo.architectures.segmenter.segmenter_config import SegmenterConfig


def _network(config: SegmenterConfig) -> Callable[..., Any]:
    from zoo.architectures.segmenter.patch_classifier import segmenter_maker

    return segmenter_maker(config)


def _sizes(config: SegmenterConfig, shapes: Shapes) -> SegmenterConfig | None:
    read, classes = count_rows(shapes, "batch_norm.weight"), count_rows(shapes, "head.weight")
    return replace(config, layers=read // config.dim, classes=classes) if classes else None


SEGMENTER = Architecture(
    config=SegmenterConfig,
    network=_network,
    purpose=lambda config: PURPOSE_OF_AREAS,
    parts=("backbone",),
    sizes=_sizes,
    unsized=lambda config: replace(config, layers=0, classes=0),
    below=lambda config: config.backbone,
)
