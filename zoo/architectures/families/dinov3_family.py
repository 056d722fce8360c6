"""Published models of DINOv3, and of EUPE and dino.txt, which are based on it."""

from dataclasses import replace
from typing import NamedTuple

from weights.containers.safetensors import INDEX, TENSORS
from weights.namings import (
    convnext_names,
    equimo_names,
    huggingface_names,
    meta_names,
    timm_names,
    tower_names,
)
from zoo.architectures.architecture import Config
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.entry import (
    ADE20K,
    IMAGENET,
    NYU,
    HubFields,
    Licence,
    ModelInfo,
    Publisher,
    ReportedResult,
    published_namings,
    report_results,
)
from zoo.architectures.families import shared
from zoo.architectures.vit.vit_config import HeadBlocks, ViTConfig
from zoo.images.preprocessing import Preprocessing

# DINOv3 vision transformers and ConvNeXts (Siméoni et al., 2025, arXiv:2508.10104).
#
# Shapes and file hashes are those of the published checkpoints; a hash is the first 8 hex digits of
# the file's sha256.

DINOV3 = Publisher(
    source="facebookresearch/dinov3",
    licence=Licence(
        name="DINOv3 License",
        text="dinov3.md",
        page="https://ai.meta.com/resources/models-and-libraries/dinov3-license/",
        download="https://ai.meta.com/resources/models-and-libraries/dinov3-downloads/",
    ),
    papers=("2508.10104",),
    repository="facebook/{}",
)

# Models trained on web images (LVD-1689M) use ImageNet's statistics. Those trained on satellite
# images (SAT-493M) use the statistics of that data set.
LVD = shared.imagenet(rescale_first=True)
SAT = Preprocessing(mean=(0.430, 0.411, 0.296), std=(0.213, 0.156, 0.143), rescale_first=True)

VITS16, VITB16, VITL16 = (
    ViTConfig(*dimensions) for dimensions in (shared.SMALL, shared.BASE, shared.LARGE)
)
VITS16PLUS = replace(VITS16, ffn="swiglu")
HPLUS = ViTConfig(1280, 32, 20, 5120, ffn="swiglu")
VIT7B16 = ViTConfig(4096, 40, 32, 8192, ffn="swiglu", qkv_bias=False, untied_norms=True)
LARGE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(192, 384, 768, 1536))
CONVNEXTS = (shared.CONVNEXT_TINY, shared.CONVNEXT_SMALL, shared.CONVNEXT_BASE)


class Probes(NamedTuple):
    """Results of a model of DINOv3.

    - `real`, `areas`, `depth`: linear layers on ImageNet ReaL (ConvNeXts at 256 pixels), ADE20k and
      NYU Depth v2, from tables 14 and 15 of the paper and the model cards.
    - `nearest_neighbours`: nearest neighbours on ImageNet-1k, as EUPE's authors measured it
      (arXiv:2603.22387, tables 1, 4 and 5); None if they did not.
    """

    real: float
    areas: float
    depth: float
    nearest_neighbours: float | None = None

    @property
    def results(self) -> tuple[ReportedResult, ...]:
        """Results as `ModelInfo.reported` has them, without those that are not known."""
        card = "arXiv:2508.10104, tables 14 and 15, and the model cards"
        return (
            *report_results(
                "arXiv:2603.22387, tables 1, 4 and 5", IMAGENET, k_NN=self.nearest_neighbours
            ),
            *report_results(card, "ImageNet ReaL", linear=self.real),
            *report_results(card, ADE20K, areas=self.areas),
            *report_results(card, NYU, depth=self.depth),
        )


# architecture in the file name, data set, configuration, file hash, parameters, results
DINOV3_VARIANTS: tuple[tuple[str, str, Config, str, int, Probes | None], ...] = (
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

# timm's names of the variants.
DINOV3_IN_TIMM = {
    "vits16": "small",
    "vits16plus": "small_plus",
    "vitb16": "base",
    "vitl16": "large",
}
DINOV3_IN_TIMM |= {"vith16plus": "huge_plus", "vit7b16": "7b"}

DINOV3_NAMINGS = (
    meta_names.DINOV3_VIT,
    equimo_names.DINOV3_VIT,
    huggingface_names.DINOV3_VIT,
    timm_names.DINOV3_VIT,
)


def _dinov3_in_timm(arch: str, data: str) -> tuple[str, ...]:
    """Return timm's names of a DINOv3 network on the hub; empty if timm does not have it.

    A vision transformer has two names there: without and with biases of queries and values. Both
    have the same weights.

    **Arguments:**

    - `arch`: Meta's name of the architecture, such as `vits16`.
    - `data`: Meta's name of the training data, such as `lvd1689m`.
    """
    if arch.startswith("convnext"):
        return (f"timm/{arch}.dinov3_{data}",)
    names = (
        f"timm/vit_{DINOV3_IN_TIMM.get(arch)}_patch16_dinov3{kind}.{data}" for kind in ("", "_qkvb")
    )
    return tuple(names) if arch in DINOV3_IN_TIMM else ()


def _dinov3(
    arch: str, data: str, config: Config, digest: str, parameters: int, probes: Probes | None
) -> ModelInfo:
    """Return the registry's row of one DINOv3 network.

    **Arguments:**

    - `arch`, `data`: Meta's names of the architecture and of the training data.
    - `config`: its configuration.
    - `digest`: the digits of the sha256 in the name of Meta's file.
    - `parameters`: the number of parameters.
    - `probes`: the published results; None if there are none.
    """
    identifier = f"dinov3_{arch}_pretrain_{data}"
    # The authors list no model card for ViT-L/16+; only their code has it.
    is_on_hub = arch != "vitl16plus"
    file = INDEX if arch == "vit7b16" else TENSORS
    is_vit = isinstance(config, ViTConfig)
    return ModelInfo(
        name=f"dinov3_{arch}" if data == "lvd1689m" else f"dinov3_{arch}_{data}",
        family="dinov3",
        aliases=(identifier, *_dinov3_in_timm(arch, data)),
        config=config,
        published=published_namings(
            config, *(DINOV3_NAMINGS if is_vit else convnext_names.NAMINGS)
        ),
        preprocessing=LVD if data == "lvd1689m" else SAT,
        publisher=DINOV3,
        checkpoint=f"{identifier}-{digest}.pth",
        digest=digest,
        archive=f"{identifier}.tar.lz4",
        **(DINOV3.hub_fields(identifier.replace("_", "-"), file) if is_on_hub else HubFields()),
        mirrors=shared.equimo_files(identifier),
        parameters=parameters,
        pooler=shared.CLASS_TOKEN if is_vit else shared.MEAN_OF_MAP,
        labels=shared.IMAGENET,
        reported=probes.results if probes else (),
    )


DINOV3_MODELS = tuple(_dinov3(*row) for row in DINOV3_VARIANTS)


# EUPE's vision transformers and ConvNeXts (Zhu et al., 2026, arXiv:2603.22387): DINOv3's networks,
# distilled.
#
# The files have DINOv3's tensor names, so that those of ViT-S and ViT-B fit the DINOv3 models of
# that size, and nothing in the file distinguishes them. EUPE publishes no digests. The digest of
# Equimo's archive is known.

EUPE = Publisher(
    source="facebookresearch/EUPE",
    licence=Licence(
        name="FAIR Noncommercial Research License",
        text="fair-noncommercial.md",
        page="https://github.com/facebookresearch/EUPE/blob/main/LICENSE.md",
        download="https://github.com/facebookresearch/EUPE",
    ),
    papers=("2603.22387",),
    repository="facebook/{}",
)

EUPE_NAMINGS = (meta_names.DINOV3_VIT, equimo_names.DINOV3_VIT)

# name, title, timm's size, configuration, parameters; results on ImageNet-1k by nearest neighbours,
# on NYU Depth v2 and on ADE20k (tables 1, 5 and 6 of the paper)
EUPE_VARIANTS: tuple[tuple[str, str, str, Config, int, float | None, float, float], ...] = (
    ("vitt16", "ViT-T", "tiny", ViTConfig(*shared.TINY), 5_492_160, 66.3, 0.571, 36.7),
    ("vits16", "ViT-S", "small", ViTConfig(*shared.SMALL), 21_601_152, 78.2, 0.455, 46.6),
    ("vitb16", "ViT-B", "base", ViTConfig(*shared.BASE), 85_669_632, 84.1, 0.391, 52.4),
    ("convnext_tiny", "ConvNeXt-T", "", shared.CONVNEXT_TINY, 27_820_128, None, 0.430, 43.5),
    ("convnext_small", "ConvNeXt-S", "", shared.CONVNEXT_SMALL, 49_454_688, None, 0.388, 46.8),
    ("convnext_base", "ConvNeXt-B", "", shared.CONVNEXT_BASE, 87_566_464, None, 0.365, 48.9),
)

EUPE_PAPER = "arXiv:2603.22387, tables 1, 5 and 6"


def _eupe(
    arch: str,
    title: str,
    in_timm: str,
    config: Config,
    parameters: int,
    nearest_neighbours: float | None,
    depth: float,
    areas: float,
) -> ModelInfo:
    """Return the registry's row of one EUPE network.

    **Arguments:**

    - `arch`: the part of our name.
    - `title`: the part of the authors' name.
    - `in_timm`: the part of timm's name; empty if timm does not have the network.
    - `parameters`: the number of parameters.
    - `nearest_neighbours`, `depth`, `areas`: results on ImageNet-1k and ADE20k in percent, and on
      NYU Depth v2 in metres. None if a result is not known.
    """
    name, published = f"eupe_{arch}", f"EUPE-{title}"
    is_vit = isinstance(config, ViTConfig)
    timm = (f"timm/vit_{in_timm}_patch16_dinov3_qkvb.eupe_lvd1689m",) if in_timm else ()
    return ModelInfo(
        name=name,
        family="eupe",
        aliases=(published, *timm),
        config=config,
        published=published_namings(config, *(EUPE_NAMINGS if is_vit else convnext_names.NAMINGS)),
        preprocessing=shared.imagenet(size=(256, 256)),
        publisher=EUPE,
        checkpoint=f"{published}.pt",
        archive=f"{name}.tar.lz4",
        **EUPE.hub_fields(published, f"{published}.pt"),
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        pooler=shared.CLASS_TOKEN if is_vit else shared.MEAN_OF_MAP,
        reported=(
            *report_results(EUPE_PAPER, IMAGENET, k_NN=nearest_neighbours),
            *report_results(EUPE_PAPER, ADE20K, areas=areas),
            *report_results(EUPE_PAPER, NYU, depth=depth),
        ),
    )


EUPE_MODELS = tuple(_eupe(*row) for row in EUPE_VARIANTS)


# dino.txt (Jose et al., 2024, arXiv:2412.16334): DINOv3's ViT-L/16 with two more blocks, and a
# transformer for texts, for classes that are described in words.
#
# The vector of a picture is the class token followed by the mean of the patches. The vector of a
# text is a linear projection of its last token. The backbone was frozen during training; Meta
# publishes it in a file of its own.
#
# Source: `dinov3/hub/dinotxt.py` and `dinov3/eval/text` of facebookresearch/dinov3 (Siméoni et al.,
# 2025, arXiv:2508.10104). The vocabulary is CLIP's.

DINOTXT_VISION = replace(
    ViTConfig(*shared.LARGE), head_blocks=HeadBlocks(2, hidden=2752), pool="both"
)
DINOTXT_WORDS = TextConfig(
    *(1280, 24, 20, 5120),
    projection=2 * DINOTXT_VISION.dim,
    vocabulary=49_408,
    tokens=77,
    activation="gelu",
    norm_eps=1e-5,
    causal=True,
    pool="greatest",
    qkv_bias=False,
    head_bias=False,
)
DINOTXT_TOWERS = DualConfig(DINOTXT_VISION, DINOTXT_WORDS, bias=False)

_DINOTXT_TEXT = ModelInfo(
    name="dinov3_vitl16_dinotxt_text",
    family="dinotxt_text",
    config=DINOTXT_WORDS,
    published=published_namings(DINOTXT_WORDS, tower_names.DINOTXT_TEXT),
    preprocessing=LVD,
    publisher=replace(DINOV3, papers=("2412.16334", "2508.10104")),
    checkpoint="dinov3_vitl16_dinotxt_vision_head_and_text_encoder-a442d8f5.pth",
    parameters=538_131_200,
    pooler="a linear layer on the token that ends the words",
)

_DINOTXT_DUAL = replace(
    _DINOTXT_TEXT,
    name="dinov3_vitl16_dinotxt_dual",
    family="dinotxt_dual",
    aliases=("dinov3_vitl16_dinotxt_tet1280d20h24l", "dinov3_vitl16_dinotxt"),
    config=DINOTXT_TOWERS,
    published=published_namings(DINOTXT_TOWERS, tower_names.DINOTXT_DUAL),
    parameters=866_611_713,
    pooler="",
)

DINOTXT_MODELS = (_DINOTXT_TEXT, _DINOTXT_DUAL)
