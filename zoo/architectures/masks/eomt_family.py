"""EoMT (Kerssies et al., 2025, arXiv:2503.19108) on DINOv3: areas of a picture and what is in them.

The names of transformers' repositories say which classes a network knows and what it was trained
for: all areas of a picture (panoptic), things one by one (instance), or classes (semantic). The
authors' own files are differences from DINOv3's weights, which are not read here.

Source: `model_zoo/dinov3.md` of tue-mps/eomt.
"""

from dataclasses import replace

from weights.namings import mask_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import dinov3, shared
from zoo.architectures.masks.mask_config import MaskConfig
from zoo.architectures.reported import reported
from zoo.architectures.vit.vit_config import ViTConfig

SOURCE = "tue-mps/eomt"
Variant = tuple[str, str, int, tuple[str, ...], int, int, float]

# EoMT's own part is under the MIT License; DINOv3's terms go with what its weights became.
LICENCE = replace(
    dinov3.LICENCE, download=f"https://github.com/{SOURCE}/blob/master/model_zoo/dinov3.md"
)

# The first 80 are things, which can be told apart; the others are what is around them.
PANOPTIC = shared.class_names("coco")
THINGS = PANOPTIC[:80]
ADE20K = shared.class_names("ade20k")

# dimensions, and how many of the blocks have queries
SIZES = {"small": (shared.SMALL, 3), "base": (shared.BASE, 3), "large": (shared.LARGE, 4)}

# classes and task, size, pixels along a side, names of classes, queries, parameters, and PQ, AP or
# mIoU of the task (`model_zoo/dinov3.md`)
VARIANTS: tuple[Variant, ...] = (
    ("coco-panoptic", "small", 640, PANOPTIC, 200, 23_361_545, 47.2),
    ("coco-panoptic", "base", 640, PANOPTIC, 200, 92_434_313, 53.1),
    ("coco-panoptic", "large", 640, PANOPTIC, 200, 315_057_290, 56.8),
    ("coco-panoptic", "large", 1280, PANOPTIC, 200, 315_057_290, 58.9),
    ("coco-instance", "large", 640, THINGS, 200, 315_002_965, 45.9),
    ("coco-instance", "large", 1280, THINGS, 200, 315_002_965, 49.9),
    ("ade-semantic", "large", 512, ADE20K, 100, 314_972_315, 59.5),
)


def _model(variant: Variant) -> ModelInfo:
    task, size, side, names, queries, parameters, areas = variant
    data = ("ADE20k" if task.startswith("ade") else "COCO") + f", {task.partition('-')[2]}"
    dimensions, blocks = SIZES[size]
    backbone = ViTConfig(*dimensions, norm_eps=1e-6, mask_token=False, pool=None)
    name = f"eomt-dinov3-{task}-{size}-{side}"
    repository = f"tue-mps/{name}"
    return ModelInfo(
        name=name.replace("-", "_"),
        family="eomt",
        config=MaskConfig(backbone, queries, blocks, len(names)),
        namings=(mask_names.EOMT,),
        preprocessing=shared.imagenet(size=(side, side), padded=True),
        licence=LICENCE,
        repository=repository,
        hub=(shared.safetensors(repository),),
        parameters=parameters,
        source=SOURCE,
        papers=("2503.19108",),
        labels=names,
        reported=reported(f"model_zoo/dinov3.md of {SOURCE}", data, areas=areas),
    )


MODELS = tuple(map(_model, VARIANTS))
