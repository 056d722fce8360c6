"""Published segmentation networks: EoMT on DINOv3, and linear classifiers of DINOv2's patches."""

from dataclasses import replace

from weights.namings import mask_names
from zoo.architectures.entry import ADE20K, ModelInfo, Publisher, published_namings
from zoo.architectures.families import dinov3_family, shared
from zoo.architectures.segmentation.segmentation_config import MaskConfig, SegmenterConfig
from zoo.architectures.vit import vit_family
from zoo.architectures.vit.vit_config import ViTConfig

# EoMT (Kerssies et al., 2025, arXiv:2503.19108) on DINOv3: areas of a picture and their classes.
#
# The names of transformers' repositories contain the classes and the task: all areas of a picture
# (panoptic), single objects (instance), or classes (semantic). The authors' own files have
# differences from DINOv3's weights and are not read here.
#
# Source: `model_zoo/dinov3.md` of tue-mps/eomt.

EOMT_SOURCE = "tue-mps/eomt"
EomtVariant = tuple[str, str, int, tuple[str, ...], int, int, float]

EOMT = Publisher(
    source=EOMT_SOURCE,
    # EoMT's own part has the MIT License. DINOv3's terms apply to the weights that are based on its
    # own.
    licence=replace(
        dinov3_family.DINOV3.licence,
        download=f"https://github.com/{EOMT_SOURCE}/blob/master/model_zoo/dinov3.md",
    ),
    papers=("2503.19108",),
    repository="tue-mps/{}",
)

# The first 80 classes are of countable objects, the others of surroundings.
PANOPTIC = shared.class_names("coco")
COUNTABLE_CLASSES = PANOPTIC[:80]
ADE20K_CLASSES = shared.class_names("ade20k")

# dimensions, and the number of blocks with queries
EOMT_SIZES = {"small": (shared.SMALL, 3), "base": (shared.BASE, 3), "large": (shared.LARGE, 4)}

# classes and task, size, pixels along a side, names of classes, queries, parameters, and PQ, AP or
# mIoU of the task (`model_zoo/dinov3.md`)
EOMT_VARIANTS: tuple[EomtVariant, ...] = (
    ("coco-panoptic", "small", 640, PANOPTIC, 200, 23_361_545, 47.2),
    ("coco-panoptic", "base", 640, PANOPTIC, 200, 92_434_313, 53.1),
    ("coco-panoptic", "large", 640, PANOPTIC, 200, 315_057_290, 56.8),
    ("coco-panoptic", "large", 1280, PANOPTIC, 200, 315_057_290, 58.9),
    ("coco-instance", "large", 640, COUNTABLE_CLASSES, 200, 315_002_965, 45.9),
    ("coco-instance", "large", 1280, COUNTABLE_CLASSES, 200, 315_002_965, 49.9),
    ("ade-semantic", "large", 512, ADE20K_CLASSES, 100, 314_972_315, 59.5),
)


def _eomt(variant: EomtVariant) -> ModelInfo:
    """Return the registry's row of one EoMT. `variant` is a row of `EOMT_VARIANTS`."""
    task, size, side, names, queries, parameters, areas = variant
    data = ("ADE20k" if task.startswith("ade") else "COCO") + f", {task.partition('-')[2]}"
    dimensions, blocks = EOMT_SIZES[size]
    backbone = ViTConfig(*dimensions, norm_eps=1e-6, mask_token=False, pool=None)
    config = MaskConfig(backbone, queries, blocks, len(names))
    name = f"eomt-dinov3-{task}-{size}-{side}"
    return ModelInfo(
        name=name.replace("-", "_"),
        family="eomt",
        config=config,
        published=published_namings(config, mask_names.EOMT),
        preprocessing=shared.imagenet(size=(side, side), padded=True),
        publisher=EOMT,
        **EOMT.hub_fields(name),
        parameters=parameters,
        labels=names,
        reported=EOMT.report_results("model_zoo/dinov3.md", data, areas=areas),
    )


EOMT_MODELS = tuple(map(_eomt, EOMT_VARIANTS))


# Linear classifiers of DINOv2's patches (Oquab et al., 2023, arXiv:2304.07193), for the classes of
# ADE20K and of Pascal VOC 2012.
#
# The classifier and its backbone are in separate files. Classifiers that the paper calls `+ms` take
# the patches of the last four blocks instead of the last one. The paper also averages several
# scales of a picture for them, which is not a part of the network.
#
# Source: `notebooks/semantic_segmentation.ipynb` of facebookresearch/dinov2.


# part of the name, number of blocks that it reads
SEGMENTER_HEADS = (("linear", 1), ("ms", 4))

SEGMENTER_DATASETS = {data: shared.class_names(data) for data in ("ade20k", "voc2012")}


def _segmenter(
    letter: str,
    dimensions: shared.Dimensions,
    backbone_parameters: int,
    results: vit_family.Dinov2Results,
    data: str,
    head: str,
    layers: int,
) -> ModelInfo:
    """Return the registry's row of a linear classifier of DINOv2's patches.

    **Arguments:**

    - `letter`, `dimensions`: the letter of DINOv2's size in names, and the dimensions of the
      backbone.
    - `backbone_parameters`: the number of parameters of the backbone.
    - `results`: the published results of the backbone.
    - `data`: the data set, a key of `SEGMENTER_DATASETS`.
    - `head`: the name of the classifier's kind, `linear` or `ms`.
    - `layers`: the number of last blocks that the classifier reads.
    """
    backbone = shared.patches_of_14(
        *dimensions,
        ffn="swiglu_fused" if letter == "g" else "mlp",
        registers=0,
        positions=vit_family.PLAIN_POSITIONS,
        pool=None,
    )
    names, width = SEGMENTER_DATASETS[data], layers * backbone.dim
    config = SegmenterConfig(backbone, layers, len(names))
    name = f"dinov2_vit{letter}14_{data}_{head}"
    is_reported = (data, head) == ("ade20k", "ms")
    publisher, areas = vit_family.DINOV2, results.areas if is_reported else None
    return ModelInfo(
        name=name,
        family="dinov2_segmentation",
        config=config,
        published=published_namings(config, mask_names.SEGMENTER),
        preprocessing=shared.imagenet(size=(518, 518), multiple=14),
        publisher=publisher,
        checkpoint=f"{name}_head.pth",
        # A batch norm has four numbers for each channel.
        parameters=backbone_parameters + 4 * width + (width + 1) * len(names),
        labels=names,
        reported=publisher.report_results("MODEL_CARD.md", ADE20K, areas=areas),
    )


SEGMENTER_MODELS = tuple(
    _segmenter(letter, dimensions, body, results, data, head, layers)
    for letter, _, dimensions, body, results in vit_family.DINOV2_VARIANTS
    for data in SEGMENTER_DATASETS
    for head, layers in SEGMENTER_HEADS
)
