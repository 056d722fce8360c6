"""DINOv3 vision transformers and ConvNeXts (Siméoni et al., 2025, arXiv:2508.10104).

Shapes and file hashes are those of the published checkpoints; a hash is the first 8 hex digits
of the file's sha256.
"""

from dataclasses import replace
from typing import NamedTuple

from weights.namings import convnext_names, equimo_names, huggingface_names, meta_names, timm_names
from zoo.architectures.config import Config
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.entry import Licence, ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.preprocessing import Preprocessing
from zoo.architectures.reported import ADE20K, IMAGENET, NYU, Reported, reported
from zoo.architectures.vit.vit_config import ViTConfig

LICENCE = Licence(
    name="DINOv3 License",
    text="dinov3.md",
    page="https://ai.meta.com/resources/models-and-libraries/dinov3-license/",
    download="https://ai.meta.com/resources/models-and-libraries/dinov3-downloads/",
)

# Web images (LVD-1689M) use ImageNet's statistics, satellite images (SAT-493M) their own.
LVD = shared.imagenet(rescale_first=True)
SAT = Preprocessing(mean=(0.430, 0.411, 0.296), std=(0.213, 0.156, 0.143), rescale_first=True)

VITS16, VITB16, VITL16 = (ViTConfig(*each) for each in (shared.SMALL, shared.BASE, shared.LARGE))
VITS16PLUS = replace(VITS16, ffn="swiglu")
HPLUS = ViTConfig(1280, 32, 20, 5120, ffn="swiglu")
VIT7B16 = ViTConfig(4096, 40, 32, 8192, ffn="swiglu", qkv_bias=False, untied_norms=True)
LARGE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(192, 384, 768, 1536))
CONVNEXTS = (shared.CONVNEXT_TINY, shared.CONVNEXT_SMALL, shared.CONVNEXT_BASE)


class Probes(NamedTuple):
    """Results on ImageNet ReaL (ConvNeXts at 256 pixels), ADE20k and NYU Depth v2, by linear
    layers: tables 14 and 15 of the paper and the model cards; on ImageNet-1k by the nearest
    neighbours, as EUPE's authors found it (arXiv:2603.22387, tables 1, 4 and 5)."""

    real: float
    areas: float
    depth: float
    near: float | None = None

    @property
    def told(self) -> tuple[Reported, ...]:
        """Results as an entry has them."""
        card = "arXiv:2508.10104, tables 14 and 15, and the model cards"
        return (
            *reported("arXiv:2603.22387, tables 1, 4 and 5", IMAGENET, k_NN=self.near),
            *reported(card, "ImageNet ReaL", linear=self.real),
            *reported(card, ADE20K, areas=self.areas),
            *reported(card, NYU, depth=self.depth),
        )


# architecture in the file name, data set, configuration, file hash, parameters, results
VARIANTS: tuple[tuple[str, str, Config, str, int, Probes | None], ...] = (
    ("vits16", "lvd1689m", VITS16, "08c60483", 21_601_152, Probes(87.0, 47.0, 0.403, 78.6)),
    ("vits16plus", "lvd1689m", VITS16PLUS, "4057cbaa", 28_697_472, Probes(88.0, 48.8, 0.399)),
    ("vitb16", "lvd1689m", VITB16, "73cec8be", 85_669_632, Probes(89.3, 51.8, 0.373, 83.0)),
    ("vitl16", "lvd1689m", VITL16, "8aa4cbdd", 303_154_176, Probes(90.2, 54.9, 0.352)),
    ("vitl16", "sat493m", replace(VITL16, untied_norms=True), "eadcf0ff", 303_156_224, None),
    ("vitl16plus", "lvd1689m", replace(VITL16, ffn="swiglu"), "46503df0", 403_915_776, None),
    ("vith16plus", "lvd1689m", HPLUS, "7c1da9a5", 840_633_600, Probes(90.3, 54.8, 0.352, 85.4)),
    ("vit7b16", "lvd1689m", VIT7B16, "a955f4ea", 6_716_043_264, Probes(90.4, 55.9, 0.309)),
    ("vit7b16", "sat493m", VIT7B16, "a6675841", 6_716_043_264, None),
    ("convnext_tiny", "lvd1689m", CONVNEXTS[0], "21b726bb", 27_820_128, Probes(86.6, 42.7, 0.448)),
    ("convnext_small", "lvd1689m", CONVNEXTS[1], "296db49d", 49_454_688, Probes(87.9, 44.8, 0.432)),
    ("convnext_base", "lvd1689m", CONVNEXTS[2], "801f2ba9", 87_566_464, Probes(88.5, 46.3, 0.420)),
    ("convnext_large", "lvd1689m", LARGE, "61fa432d", 196_230_336, Probes(88.9, 47.8, 0.403)),
)

# What timm calls them.
TIMM = {"vits16": "small", "vits16plus": "small_plus", "vitb16": "base", "vitl16": "large"}
TIMM |= {"vith16plus": "huge_plus", "vit7b16": "7b"}

NAMINGS = (
    meta_names.DINOV3_VIT,
    equimo_names.DINOV3_VIT,
    huggingface_names.DINOV3_VIT,
    timm_names.DINOV3_VIT,
)


def _timm(arch: str, data: str) -> tuple[str, ...]:
    """With and without biases of queries and values; both hold the same network's weights."""
    if arch.startswith("convnext"):
        return (f"timm/{arch}.dinov3_{data}",)
    names = (f"timm/vit_{TIMM.get(arch)}_patch16_dinov3{kind}.{data}" for kind in ("", "_qkvb"))
    return tuple(names) if arch in TIMM else ()


def _model(
    arch: str, data: str, config: Config, digest: str, parameters: int, probes: Probes | None
) -> ModelInfo:
    identifier = f"dinov3_{arch}_pretrain_{data}"
    repository = f"facebook/{identifier}".replace("_", "-")
    # As the authors' model cards list them; there is code for one more.
    there_is_one = arch != "vitl16plus"
    file = shared.safetensors(repository, sharded=arch == "vit7b16")
    is_vit = isinstance(config, ViTConfig)
    return ModelInfo(
        name=f"dinov3_{arch}" if data == "lvd1689m" else f"dinov3_{arch}_{data}",
        family="dinov3",
        aliases=(identifier, *_timm(arch, data)),
        config=config,
        namings=NAMINGS if is_vit else convnext_names.NAMINGS,
        preprocessing=LVD if data == "lvd1689m" else SAT,
        licence=LICENCE,
        checkpoint=f"{identifier}-{digest}.pth",
        digest=digest,
        archive=f"{identifier}.tar.lz4",
        repository=repository if there_is_one else "",
        hub=(file,) if there_is_one else (),
        mirrors=shared.equimo_files(identifier),
        parameters=parameters,
        source="facebookresearch/dinov3",
        papers=("2508.10104",),
        pooler=shared.CLASS_TOKEN if is_vit else shared.MEAN_OF_MAP,
        labels=shared.IMAGENET,
        reported=probes.told if probes else (),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
