"""RF-DETR (Robinson et al., 2025, arXiv:2511.09554): a detection transformer on a windowed DINOv2.

The small networks were found by searching patch sizes, windows and decoders; `base` is the first
that was published. There was another `large` before, on maps of two scales, which transformers has
no class for either, and nor has the zoo a network. `seg_nano` and the like say of every pixel too
which thing it is of.

Sources: `src/rfdetr/config.py` and `README.md` of roboflow/rf-detr (1.11.2).
"""

from typing import NamedTuple

from weights.namings import detection_names
from zoo.architectures.detection.detection_config import (
    DecoderConfig,
    DetectionConfig,
    InstanceConfig,
)
from zoo.architectures.entry import NO_CLASS, ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.reported import reported

SOURCE = "roboflow/rf-detr"


class DetrVariant(NamedTuple):
    """A published network: pixels of a patch and of a picture along a side, patches along a side of
    the positions, windows, blocks that are read, decoder blocks and queries; its file, parameters,
    and AP of boxes. One for `masks` has those too."""

    size: str
    patch_size: int
    side: int
    grid: int
    windows: int
    layers: tuple[int, ...]
    depth: int
    queries: int
    file: str
    parameters: int
    precision: float | None = None
    masks: bool = False


EVEN, EARLY = (3, 6, 9, 12), (2, 5, 8, 11)

VARIANTS = (
    DetrVariant("nano", 16, 384, 24, 2, EVEN, 2, 300, "rf-detr-nano.pth", 30_467_298, 48.4),
    DetrVariant("small", 16, 512, 32, 2, EVEN, 3, 300, "rf-detr-small.pth", 32_111_170, 53.0),
    DetrVariant("medium", 16, 576, 36, 2, EVEN, 4, 300, "rf-detr-medium.pth", 33_687_458, 54.7),
    DetrVariant("base", 14, 560, 37, 4, EARLY, 3, 300, "rf-detr-base.pth", 32_174_530),
    DetrVariant("large", 16, 704, 44, 2, EVEN, 4, 300, "rf-detr-large-2026.pth", 33_933_218, 56.5),
    *(
        DetrVariant(
            *(f"seg_{size}", 12, side, side // 12, windows, EVEN, depth, queries),
            *(f"rf-detr-seg-{file}.pt", parameters),
            masks=True,
        )
        for size, side, windows, depth, queries, file, parameters in (
            ("nano", 312, 1, 4, 100, "nano", 33_577_475),
            ("small", 384, 2, 4, 100, "small", 33_711_107),
            ("medium", 432, 2, 5, 200, "medium", 35_694_259),
            ("large", 504, 2, 5, 200, "large", 35_873_971),
            ("xlarge", 624, 2, 6, 300, "xlarge", 38_113_635),
            ("2xlarge", 768, 2, 6, 300, "xxlarge", 38_648_163),
        )
    ),
)

UNUSED = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
"""Numbers up to 90 that COCO gives to no class."""


_THINGS = iter(shared.class_names("coco"))
COCO = tuple(NO_CLASS if number in UNUSED else next(_THINGS) for number in range(91))
"""COCO's classes by the numbers that they have there."""


def _model(variant: DetrVariant) -> ModelInfo:
    backbone = shared.patches_of_14(
        *shared.SMALL,
        layer_scale=1.0,
        patch_size=variant.patch_size,
        registers=0,
        positions=LearnedPositions(grid=variant.grid, antialias=True),
        pool=None,
    )
    repository = f"Roboflow/rf-detr-{variant.size.replace('_', '-')}"
    names = detection_names.RF_DETR_MASKS if variant.masks else detection_names.RF_DETR
    results = reported(f"README.md of {SOURCE}", "COCO", boxes=variant.precision)
    return ModelInfo(
        name=f"rf_detr_{variant.size}",
        family="rf_detr",
        config=DetectionConfig(
            backbone,
            DecoderConfig(256, variant.depth, heads=8, sampling_heads=16, points=2, hidden=2048),
            layers=variant.layers,
            windows=variant.windows,
            queries=variant.queries,
            classes=len(COCO),
            instances=InstanceConfig(variant.depth, hidden=1024) if variant.masks else None,
        ),
        namings=(names, detection_names.ORIGINAL),
        preprocessing=shared.imagenet(size=(variant.side, variant.side)),
        licence=shared.apache(SOURCE, SOURCE),
        checkpoint=variant.file,
        repository=repository,
        hub=(shared.safetensors(repository),),
        parameters=variant.parameters,
        source=SOURCE,
        papers=("2511.09554",),
        labels=COCO,
        reported=results,
    )


MODELS = tuple(map(_model, VARIANTS))
