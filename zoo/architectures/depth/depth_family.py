"""Published models of Depth Anything V2 (Yang et al., 2024, arXiv:2406.09414): DINOv2's vision
transformers with a decoder that estimates the distance of every pixel.

The relative models predict which pixels are nearer. The metric models predict distances in metres,
up to 20 for rooms (trained on Hypersim) and up to 80 for streets (trained on Virtual KITTI).
transformers has the same weights. It interpolates positions without the original's offset of 0.1,
and its files are read in this way.
"""

from dataclasses import replace

from weights.namings import depth_names
from weights.sources.hub import HubFile
from zoo.architectures.common_config import FourInts
from zoo.architectures.depth.depth_config import DepthConfig
from zoo.architectures.entry import Licence, ModelInfo, PublishedNaming, Publisher
from zoo.architectures.families import shared
from zoo.architectures.vit import vit_family

SOURCE = "DepthAnything/Depth-Anything-V2"
Variant = tuple[str, str, shared.Dimensions, FourInts, FourInts, int, int]

READ = (3, 6, 9, 12)
MODELS_PAGE = f"{SOURCE}#pre-trained-models"
SMALL = Publisher(
    source=SOURCE,
    licence=shared.apache(SOURCE, MODELS_PAGE),
    papers=("2406.09414",),
    repository="depth-anything/Depth-Anything-V2-{}",
)
LARGER = replace(
    SMALL,
    licence=Licence(
        "Creative Commons Attribution-NonCommercial 4.0",
        "cc-by-nc-4.0.txt",
        "https://creativecommons.org/licenses/by-nc/4.0/",
        f"https://github.com/{MODELS_PAGE}",
    ),
)

# letter, size, dimensions, blocks that the decoder reads, channels of their maps, fused channels,
# parameters
VARIANTS = (
    ("s", "Small", shared.SMALL, READ, (48, 96, 192, 384), 64, 24_785_089),
    ("b", "Base", shared.BASE, READ, (96, 192, 384, 768), 128, 97_470_785),
    ("l", "Large", shared.LARGE, (5, 12, 18, 24), (256, 512, 1024, 1024), 256, 335_315_649),
)

# parts of our name, of the authors' file, of their repository and of transformers'; largest depth
# in metres
KINDS = (
    ("", "", "", "", None),
    ("indoor_", "metric_hypersim_", "Metric-Hypersim-", "Metric-Indoor-", 20.0),
    ("outdoor_", "metric_vkitti_", "Metric-VKITTI-", "Metric-Outdoor-", 80.0),
)


def _model(variant: Variant, kind: tuple[str, str, str, str, float | None]) -> ModelInfo:
    """Return the registry's row of one Depth Anything model. `variant` is a row of `VARIANTS`, and
    `kind` a row of `KINDS`."""
    letter, size, dimensions, layers, channels, fused, parameters = variant
    name_part, file_part, authors_part, hub_part, metres = kind
    backbone = shared.patches_of_14(
        *dimensions, registers=0, positions=vit_family.PLAIN_POSITIONS, pool=None
    )
    config = DepthConfig(backbone, layers, channels, fused, max_depth=metres)
    # transformers interpolates its positions without an offset.
    hub_backbone = replace(backbone, positions=replace(vit_family.PLAIN_POSITIONS, offset=0.0))
    file = f"depth_anything_v2_{file_part}vit{letter}"
    publisher = SMALL if letter == "s" else LARGER
    repository = publisher.repository.format(f"{hub_part}{size}-hf")
    original = HubFile(publisher.repository.format(f"{authors_part}{size}"), f"{file}.pth")
    return ModelInfo(
        name=f"depth_anything_v2_{name_part}vit{letter}",
        family="depth_anything",
        aliases=(file,) if file_part else (),
        config=config,
        published=(
            PublishedNaming(depth_names.ORIGINAL, config),
            PublishedNaming(depth_names.HUGGINGFACE, replace(config, backbone=hub_backbone)),
        ),
        preprocessing=shared.imagenet(size=(518, 518), resample="bicubic", multiple=14),
        publisher=publisher,
        checkpoint=original.name,
        repository=repository,
        hub=(original,),
        mirrors=(shared.safetensors(repository),),
        parameters=parameters,
    )


MODELS = tuple(_model(variant, kind) for kind in KINDS for variant in VARIANTS)
