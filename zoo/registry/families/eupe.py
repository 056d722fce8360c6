"""EUPE's vision transformers and ConvNeXts (Zhu et al., 2026, arXiv:2603.22387): DINOv3's
networks, distilled.

Files have DINOv3's keys too, so those of ViT-S and ViT-B fit the DINOv3 models of that size and
nothing in them says which they are. EUPE publishes no digests; that of Equimo's archive is known.
"""

from weights.namings import convnext_names, equimo_names, meta_names
from weights.sources.hub import HubFile
from zoo.models.config import Config, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families import shared

LICENCE = Licence(
    name="FAIR Noncommercial Research License",
    text="fair-noncommercial.md",
    page="https://github.com/facebookresearch/EUPE/blob/main/LICENSE.md",
    download="https://github.com/facebookresearch/EUPE",
)

NAMINGS = (meta_names.DINOV3_VIT, equimo_names.DINOV3_VIT)

# name, title, timm's size, configuration, parameters
VARIANTS: tuple[tuple[str, str, str, Config, int], ...] = (
    ("vitt16", "ViT-T", "tiny", ViTConfig(*shared.TINY), 5_492_160),
    ("vits16", "ViT-S", "small", ViTConfig(*shared.SMALL), 21_601_152),
    ("vitb16", "ViT-B", "base", ViTConfig(*shared.BASE), 85_669_632),
    ("convnext_tiny", "ConvNeXt-T", "", shared.CONVNEXT_TINY, 27_820_128),
    ("convnext_small", "ConvNeXt-S", "", shared.CONVNEXT_SMALL, 49_454_688),
    ("convnext_base", "ConvNeXt-B", "", shared.CONVNEXT_BASE, 87_566_464),
)


def _model(arch: str, title: str, in_timm: str, config: Config, parameters: int) -> ModelInfo:
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
        pooler=shared.CLASS_TOKEN if is_vit else shared.MEAN_OF_MAP,
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
