"""EUPE's vision transformers (Zhu et al., 2026, arXiv:2603.22387): DINOv3's network, distilled.

Files have DINOv3's keys too, so those of ViT-S and ViT-B fit the DINOv3 models of that size and
nothing in them says which they are.
"""

from weights.namings import equimo, meta
from weights.sources.hub import HubFile
from zoo.models.config import Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.equimo_archives import equimo_file
from zoo.registry.families.statistics import IMAGENET_MEAN, IMAGENET_STD

LICENCE = Licence(
    name="FAIR Noncommercial Research License",
    text="fair-noncommercial.md",
    page="https://github.com/facebookresearch/EUPE/blob/main/LICENSE.md",
    download="https://github.com/facebookresearch/EUPE",
)

PREPROCESSING = Preprocessing(mean=IMAGENET_MEAN, std=IMAGENET_STD, size=(256, 256))

# letter, size in timm's names, configuration, parameters
VARIANTS = (
    ("t", "tiny", ViTConfig(dim=192, depth=12, heads=3, hidden=768), 5_492_160),
    ("s", "small", ViTConfig(dim=384, depth=12, heads=6, hidden=1536), 21_601_152),
    ("b", "base", ViTConfig(dim=768, depth=12, heads=12, hidden=3072), 85_669_632),
)

NAMINGS = (meta.DINOV3_VIT, equimo.DINOV3_VIT)


def _model(letter: str, size: str, config: ViTConfig, parameters: int) -> ModelInfo:
    name = f"eupe_vit{letter}16"
    published = f"EUPE-ViT-{letter.upper()}"
    return ModelInfo(
        name=name,
        family="eupe",
        aliases=(published, f"timm/vit_{size}_patch16_dinov3_qkvb.eupe_lvd1689m"),
        config=config,
        namings=NAMINGS,
        preprocessing=PREPROCESSING,
        licence=LICENCE,
        checkpoint=f"{published}.pt",
        digest="",
        archive=f"{name}.tar.lz4",
        repository=f"facebook/{published}",
        hub=(equimo_file(name), HubFile(f"facebook/{published}", f"{published}.pt")),
        parameters=parameters,
        source="facebookresearch/EUPE",
        pooler="the class token",
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
