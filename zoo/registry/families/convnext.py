"""The ConvNeXts of DINOv3 and of EUPE.

DINOv3: Siméoni et al., 2025, arXiv:2508.10104; a hash is the first 8 hex digits of the file's
sha256. EUPE: Zhu et al., 2026, arXiv:2603.22387; it publishes no digests, so what is downloaded
is Equimo's archive, whose digest is known.
"""

from weights.namings import convnext
from weights.sources.hub import HubFile
from zoo.models.config import ConvNeXtConfig
from zoo.registry.entry import ModelInfo
from zoo.registry.families import dinov3, eupe
from zoo.registry.families.equimo_archives import equimo_file

TINY = ConvNeXtConfig(depths=(3, 3, 9, 3), dims=(96, 192, 384, 768))
SMALL = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(96, 192, 384, 768))
BASE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(128, 256, 512, 1024))
LARGE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(192, 384, 768, 1536))

POOLER = "the mean of the last map, normed"

# size, configuration, file hash, parameters
DINOV3_VARIANTS = (
    ("tiny", TINY, "21b726bb", 27_820_128),
    ("small", SMALL, "296db49d", 49_454_688),
    ("base", BASE, "801f2ba9", 87_566_464),
    ("large", LARGE, "61fa432d", 196_230_336),
)

# size, its letter, configuration, parameters
EUPE_VARIANTS = (
    ("tiny", "T", TINY, 27_820_128),
    ("small", "S", SMALL, 49_454_688),
    ("base", "B", BASE, 87_566_464),
)


def _dinov3(size: str, config: ConvNeXtConfig, digest: str, parameters: int) -> ModelInfo:
    identifier = f"dinov3_convnext_{size}_pretrain_lvd1689m"
    repository = f"facebook/dinov3-convnext-{size}-pretrain-lvd1689m"
    return ModelInfo(
        name=f"dinov3_convnext_{size}",
        family="dinov3",
        aliases=(identifier, f"timm/convnext_{size}.dinov3_lvd1689m"),
        config=config,
        namings=convnext.NAMINGS,
        preprocessing=dinov3.LVD,
        licence=dinov3.LICENCE,
        checkpoint=f"{identifier}-{digest}.pth",
        digest=digest,
        archive=f"{identifier}.tar.lz4",
        repository=repository,
        hub=(HubFile(repository, "model.safetensors"),),
        parameters=parameters,
        source="facebookresearch/dinov3",
        pooler=POOLER,
    )


def _eupe(size: str, letter: str, config: ConvNeXtConfig, parameters: int) -> ModelInfo:
    name, title = f"eupe_convnext_{size}", f"EUPE-ConvNeXt-{letter}"
    return ModelInfo(
        name=name,
        family="eupe",
        aliases=(title,),
        config=config,
        namings=convnext.NAMINGS,
        preprocessing=eupe.PREPROCESSING,
        licence=eupe.LICENCE,
        checkpoint=f"{title}.pt",
        digest="",
        archive=f"{name}.tar.lz4",
        repository=f"facebook/{title}",
        hub=(equimo_file(name), HubFile(f"facebook/{title}", f"{title}.pt")),
        parameters=parameters,
        source="facebookresearch/EUPE",
        pooler=POOLER,
    )


MODELS = (
    *(_dinov3(*row) for row in DINOV3_VARIANTS),
    *(_eupe(*row) for row in EUPE_VARIANTS),
)
