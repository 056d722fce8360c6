"""Published detection transformers: RF-DETR and DEIMv2."""

from typing import NamedTuple

from weights.namings import deim_names, detection_names
from zoo.architectures.detection.detection_config import (
    DecoderConfig,
    DeimConfig,
    DetectionConfig,
    FinderConfig,
    InstanceConfig,
    PyramidConfig,
)
from zoo.architectures.entry import NO_CLASS, ModelInfo, Publisher, published_namings
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.vit.vit_config import ViTConfig

# RF-DETR (Robinson et al., 2025, arXiv:2511.09554): a detection transformer on a windowed DINOv2.
#
# The small networks were found by searching patch sizes, windows and decoders. `base` was published
# first. An older `large`, with maps of two scales, is supported neither by transformers nor by the
# zoo. `seg_nano` and the other `seg_` networks also predict masks.
#
# Sources: `src/rfdetr/config.py` and `README.md` of roboflow/rf-detr (1.11.2).

RF_DETR = Publisher(
    source="roboflow/rf-detr",
    licence=shared.apache("roboflow/rf-detr", "roboflow/rf-detr"),
    papers=("2511.09554",),
    repository="Roboflow/rf-detr-{}",
)


class DetrVariant(NamedTuple):
    """A published network of RF-DETR.

    - `patch_size`, `side`: pixels along a side of a patch, and of a picture.
    - `grid`: patches along a side of the pictures that positions were trained on.
    - `windows`: windows along a side.
    - `layers`: blocks of the backbone that are read.
    - `depth`, `queries`: blocks of the decoder, and queries.
    - `file`, `parameters`: name of the file, and number of parameters.
    - `precision`: AP of boxes.
    - `masks`: whether the network also predicts masks.
    """

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


RF_DETR_EVEN, RF_DETR_EARLY = (3, 6, 9, 12), (2, 5, 8, 11)

RF_DETR_VARIANTS = (
    DetrVariant("nano", 16, 384, 24, 2, RF_DETR_EVEN, 2, 300, "rf-detr-nano.pth", 30_467_298, 48.4),
    DetrVariant(
        "small", 16, 512, 32, 2, RF_DETR_EVEN, 3, 300, "rf-detr-small.pth", 32_111_170, 53.0
    ),
    DetrVariant(
        "medium", 16, 576, 36, 2, RF_DETR_EVEN, 4, 300, "rf-detr-medium.pth", 33_687_458, 54.7
    ),
    DetrVariant("base", 14, 560, 37, 4, RF_DETR_EARLY, 3, 300, "rf-detr-base.pth", 32_174_530),
    DetrVariant(
        "large", 16, 704, 44, 2, RF_DETR_EVEN, 4, 300, "rf-detr-large-2026.pth", 33_933_218, 56.5
    ),
    *(
        DetrVariant(
            *(f"seg_{size}", 12, side, side // 12, windows, RF_DETR_EVEN, depth, queries),
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

UNUSED_NUMBERS = (0, 12, 26, 29, 30, 45, 66, 68, 69, 71, 83)
"""Numbers up to 90 that have no class in COCO."""


_NAMES = iter(shared.class_names("coco"))
COCO_WITH_GAPS = tuple(
    NO_CLASS if number in UNUSED_NUMBERS else next(_NAMES) for number in range(91)
)
"""COCO's classes by their numbers in COCO."""


def _rf_detr(variant: DetrVariant) -> ModelInfo:
    """Return the registry's row of the RF-DETR with these sizes."""
    backbone = shared.patches_of_14(
        *shared.SMALL,
        layer_scale=1.0,
        patch_size=variant.patch_size,
        registers=0,
        positions=LearnedPositions(grid=variant.grid, antialias=True),
        pool=None,
    )
    config = DetectionConfig(
        backbone,
        DecoderConfig(256, variant.depth, heads=8, sampling_heads=16, points=2, hidden=2048),
        layers=variant.layers,
        windows=variant.windows,
        queries=variant.queries,
        classes=len(COCO_WITH_GAPS),
        instances=InstanceConfig(variant.depth, hidden=1024) if variant.masks else None,
    )
    names = detection_names.RF_DETR_MASKS if variant.masks else detection_names.RF_DETR
    return ModelInfo(
        name=f"rf_detr_{variant.size}",
        family="rf_detr",
        config=config,
        published=published_namings(config, names, detection_names.ORIGINAL),
        preprocessing=shared.imagenet(size=(variant.side, variant.side)),
        publisher=RF_DETR,
        checkpoint=variant.file,
        **RF_DETR.hub_fields(variant.size.replace("_", "-")),
        parameters=variant.parameters,
        labels=COCO_WITH_GAPS,
        reported=RF_DETR.report_results("README.md", "COCO", boxes=variant.precision),
    )


RF_DETR_MODELS = tuple(map(_rf_detr, RF_DETR_VARIANTS))


# DEIMv2 (Huang et al., 2025, arXiv:2509.20787): a detection transformer on DINOv3.
#
# `l` and `x` have DINOv3's own backbones, `s` and `m` smaller ones that were distilled from it.
# They are read from folders that transformers' conversion script makes from the authors' files.
# Nothing is downloaded. The authors' smaller networks have no vision transformer and are not
# supported.
#
# Sources: `README.md` and `hf_models.ipynb` of Intellindust-AI-Lab/DEIMv2, and
# `convert_deimv2_original_pytorch_checkpoint_to_hf.py` of transformers.

DEIM_SOURCE = "Intellindust-AI-Lab/DEIMv2"
DEIM = Publisher(
    source=DEIM_SOURCE,
    licence=shared.apache(DEIM_SOURCE, DEIM_SOURCE),
    papers=("2509.20787",),
    repository="Intellindust/DEIMv2_DINOv3_{}_COCO",
)


class DeimVariant(NamedTuple):
    """A published network of DEIMv2.

    - `backbone`, `layers`: the backbone, and its blocks that are read.
    - `planes`, `width`: channels of the adapter, and of maps.
    - `hidden`, `narrow`, `bottlenecks`: channels of the pyramid's transformer block and of a
      branch, and number of bottlenecks.
    - `depth`, `gate_dim`: blocks of the transformer of queries, and channels of their gates.
    - `parameters`, `precision`: number of parameters, and AP.
    """

    size: str
    backbone: ViTConfig
    layers: tuple[int, int, int]
    planes: int
    width: int
    hidden: int
    narrow: int
    bottlenecks: int
    depth: int
    gate_dim: int
    parameters: int
    precision: float


def _distilled(dim: int, heads: int) -> ViTConfig:
    """Return the configuration of a backbone of width `dim` with this number of heads, which was
    distilled from DINOv3. It has no registers."""
    return ViTConfig(dim, 12, heads, 4 * dim, registers=0, layer_scale=1.0, pool=None)


VITS16 = ViTConfig(*shared.SMALL, pool=None)
VITS16PLUS = ViTConfig(*shared.SMALL, ffn="swiglu", pool=None)
DEIM_EVEN, DEIM_LATE = (4, 8, 12), (6, 9, 12)

DEIM_VARIANTS = (
    DeimVariant("s", _distilled(192, 3), DEIM_EVEN, 16, 192, 512, 32, 2, 4, 256, 9_833_950, 50.9),
    DeimVariant("m", _distilled(256, 4), DEIM_EVEN, 16, 256, 512, 85, 3, 4, 256, 18_452_950, 53.0),
    DeimVariant("l", VITS16, DEIM_LATE, 32, 224, 896, 112, 3, 4, 896, 32_626_510, 56.0),
    DeimVariant("x", VITS16PLUS, DEIM_LATE, 64, 256, 1024, 160, 4, 6, 1024, 51_315_800, 57.8),
)

COCO_CLASSES = shared.class_names("coco")[:80]


def _deim(variant: DeimVariant) -> ModelInfo:
    """Return the registry's row of the DEIMv2 with these sizes."""
    pyramid = PyramidConfig(
        1, heads=8, hidden=variant.hidden, narrow=variant.narrow, bottlenecks=variant.bottlenecks
    )
    config = DeimConfig(
        variant.backbone,
        variant.width,
        variant.planes,
        variant.layers,
        pyramid,
        FinderConfig(variant.depth, heads=8, hidden=variant.gate_dim),
        queries=300,
        classes=len(COCO_CLASSES),
        normed=variant.backbone.registers > 0,
    )
    return ModelInfo(
        name=f"deimv2_{variant.size}",
        family="deimv2",
        config=config,
        published=published_namings(config, deim_names.DEIM),
        preprocessing=shared.imagenet(size=(640, 640)),
        publisher=DEIM,
        repository=DEIM.repository.format(variant.size.upper()),
        parameters=variant.parameters,
        labels=COCO_CLASSES,
        reported=DEIM.report_results("README.md", "COCO", boxes=variant.precision),
    )


DEIM_MODELS = tuple(map(_deim, DEIM_VARIANTS))
