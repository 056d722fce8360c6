"""DINOv3 vision transformers (Siméoni et al., 2025, arXiv:2508.10104).

Shapes and file hashes are those of the published checkpoints; a hash is the first 8 hex digits
of the file's sha256.
"""

from weights.namings import equimo, huggingface, meta, timm
from weights.sources.hub import HubFile
from zoo.models.config import Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.equimo_archives import DIGESTS, equimo_file

LICENCE = Licence(
    name="DINOv3 License",
    text="dinov3.md",
    page="https://ai.meta.com/resources/models-and-libraries/dinov3-license/",
    download="https://ai.meta.com/resources/models-and-libraries/dinov3-downloads/",
)

# Web images (LVD-1689M) use ImageNet's statistics, satellite images (SAT-493M) their own.
LVD = Preprocessing(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), rescale_first=True)
SAT = Preprocessing(mean=(0.430, 0.411, 0.296), std=(0.213, 0.156, 0.143), rescale_first=True)

VITS16 = ViTConfig(dim=384, depth=12, heads=6, hidden=1536)
VITS16PLUS = ViTConfig(dim=384, depth=12, heads=6, hidden=1536, ffn="swiglu")
VITB16 = ViTConfig(dim=768, depth=12, heads=12, hidden=3072)
VITL16 = ViTConfig(dim=1024, depth=24, heads=16, hidden=4096)
VITL16_SAT = ViTConfig(dim=1024, depth=24, heads=16, hidden=4096, untied_norms=True)
VITL16PLUS = ViTConfig(dim=1024, depth=24, heads=16, hidden=4096, ffn="swiglu")
VITH16PLUS = ViTConfig(dim=1280, depth=32, heads=20, hidden=5120, ffn="swiglu")
VIT7B16 = ViTConfig(
    dim=4096, depth=40, heads=32, hidden=8192, ffn="swiglu", qkv_bias=False, untied_norms=True
)

# name, architecture in the file name, data set, configuration, file hash, parameters
VARIANTS = (
    ("dinov3_vits16", "vits16", "lvd1689m", VITS16, "08c60483", 21_601_152),
    ("dinov3_vits16plus", "vits16plus", "lvd1689m", VITS16PLUS, "4057cbaa", 28_697_472),
    ("dinov3_vitb16", "vitb16", "lvd1689m", VITB16, "73cec8be", 85_669_632),
    ("dinov3_vitl16", "vitl16", "lvd1689m", VITL16, "8aa4cbdd", 303_154_176),
    ("dinov3_vitl16_sat493m", "vitl16", "sat493m", VITL16_SAT, "eadcf0ff", 303_156_224),
    ("dinov3_vitl16plus", "vitl16plus", "lvd1689m", VITL16PLUS, "46503df0", 403_915_776),
    ("dinov3_vith16plus", "vith16plus", "lvd1689m", VITH16PLUS, "7c1da9a5", 840_633_600),
    ("dinov3_vit7b16", "vit7b16", "lvd1689m", VIT7B16, "a955f4ea", 6_716_043_264),
    ("dinov3_vit7b16_sat493m", "vit7b16", "sat493m", VIT7B16, "a6675841", 6_716_043_264),
)

# What timm calls them.
TIMM = {
    "vits16": "small",
    "vits16plus": "small_plus",
    "vitb16": "base",
    "vitl16": "large",
    "vith16plus": "huge_plus",
    "vit7b16": "7b",
}

NAMINGS = (meta.DINOV3_VIT, equimo.DINOV3_VIT, huggingface.DINOV3_VIT, timm.DINOV3_VIT)


def _hub(identifier: str, repository: str) -> tuple[HubFile, ...]:
    """Equimo's archive where there is one, pinned; else transformers' file, which needs a token."""
    if identifier in DIGESTS:
        return (equimo_file(identifier),)
    return (HubFile(repository, "model.safetensors"),)


def _timm(arch: str, data: str) -> tuple[str, ...]:
    """With and without biases of queries and values; both hold the same network's weights."""
    names = (f"timm/vit_{TIMM.get(arch)}_patch16_dinov3{kind}.{data}" for kind in ("", "_qkvb"))
    return tuple(names) if arch in TIMM else ()


def _model(
    name: str, arch: str, data: str, config: ViTConfig, digest: str, parameters: int
) -> ModelInfo:
    identifier = f"dinov3_{arch}_pretrain_{data}"
    repository = f"facebook/dinov3-{arch}-pretrain-{data}"
    return ModelInfo(
        name=name,
        family="dinov3",
        aliases=(identifier, *_timm(arch, data)),
        config=config,
        namings=NAMINGS,
        preprocessing=LVD if data == "lvd1689m" else SAT,
        licence=LICENCE,
        checkpoint=f"{identifier}-{digest}.pth",
        digest=digest,
        archive=f"{identifier}.tar.lz4",
        repository=repository,
        hub=_hub(identifier, repository),
        parameters=parameters,
        source="facebookresearch/dinov3",
        pooler="the class token",
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
