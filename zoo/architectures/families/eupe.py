"""EUPE's vision transformers and ConvNeXts (Zhu et al., 2026, arXiv:2603.22387): DINOv3's
networks, distilled.

Files have DINOv3's keys too, so those of ViT-S and ViT-B fit the DINOv3 models of that size and
nothing in them says which they are. EUPE publishes no digests; that of Equimo's archive is known.
"""

from weights.namings import convnext_names, equimo_names, meta_names
from weights.sources.hub import HubFile
from zoo.architectures.config import Config
from zoo.architectures.entry import Licence, ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.reported import ADE20K, IMAGENET, NYU, reported
from zoo.architectures.vit.vit_config import ViTConfig

LICENCE = Licence(
    name="FAIR Noncommercial Research License",
    text="fair-noncommercial.md",
    page="https://github.com/facebookresearch/EUPE/blob/main/LICENSE.md",
    download="https://github.com/facebookresearch/EUPE",
)

NAMINGS = (meta_names.DINOV3_VIT, equimo_names.DINOV3_VIT)

# name, title, timm's size, configuration, parameters; on ImageNet-1k by the nearest neighbours, on
# NYU Depth v2 and on ADE20k (tables 1, 5 and 6 of the paper)
VARIANTS: tuple[tuple[str, str, str, Config, int, float | None, float, float], ...] = (
    ("vitt16", "ViT-T", "tiny", ViTConfig(*shared.TINY), 5_492_160, 66.3, 0.571, 36.7),
    ("vits16", "ViT-S", "small", ViTConfig(*shared.SMALL), 21_601_152, 78.2, 0.455, 46.6),
    ("vitb16", "ViT-B", "base", ViTConfig(*shared.BASE), 85_669_632, 84.1, 0.391, 52.4),
    ("convnext_tiny", "ConvNeXt-T", "", shared.CONVNEXT_TINY, 27_820_128, None, 0.430, 43.5),
    ("convnext_small", "ConvNeXt-S", "", shared.CONVNEXT_SMALL, 49_454_688, None, 0.388, 46.8),
    ("convnext_base", "ConvNeXt-B", "", shared.CONVNEXT_BASE, 87_566_464, None, 0.365, 48.9),
)

PAPER = "arXiv:2603.22387, tables 1, 5 and 6"


def _model(
    arch: str,
    title: str,
    in_timm: str,
    config: Config,
    parameters: int,
    near: float | None,
    depth: float,
    areas: float,
) -> ModelInfo:
    name, published = f"eupe_{arch}", f"EUPE-{title}"
    is_vit = isinstance(config, ViTConfig)
    timm = (f"timm/vit_{in_timm}_patch16_dinov3_qkvb.eupe_lvd1689m",) if in_timm else ()
    return ModelInfo(
        name=name,
        family="eupe",
        aliases=(published, *timm),
        config=config,
        namings=NAMINGS if is_vit else convnext_names.NAMINGS,
        preprocessing=shared.imagenet(size=(256, 256)),
        licence=LICENCE,
        checkpoint=f"{published}.pt",
        archive=f"{name}.tar.lz4",
        repository=f"facebook/{published}",
        hub=(HubFile(f"facebook/{published}", f"{published}.pt"),),
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        source="facebookresearch/EUPE",
        papers=("2603.22387",),
        pooler=shared.CLASS_TOKEN if is_vit else shared.MEAN_OF_MAP,
        reported=(
            *reported(PAPER, IMAGENET, k_NN=near),
            *reported(PAPER, ADE20K, areas=areas),
            *reported(PAPER, NYU, depth=depth),
        ),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
