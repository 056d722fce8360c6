"""Published models of SigLIP 2 (Tschannen et al., 2025, arXiv:2502.14786): vision transformers,
transformers for texts, and dual encoders of both, for classes that are described in words.

`pooler_output` is the embedding of the picture or of the text, as in `SiglipVisionModel` and
`SiglipTextModel` of transformers. Equimo's archives do not contain the pooling head of the network
for pictures. An export of such an archive has `last_hidden_state` only. Google calls the network
for 378 pixels 384; at 384 pixels its 27 x 27 patches leave 6 pixels unused.

The GELU is the original's approximation by a hyperbolic tangent, as in transformers. timm (1.0.31)
runs some of the same weights with the exact GELU, which changes the features by 1e-3.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from weights.containers.safetensors import INDEX, TENSORS
from weights.namings import equimo_names, huggingface_names, timm_names
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.dual.naflex_config import NaFlexConfig, NaFlexDualConfig
from zoo.architectures.entry import (
    IMAGENET,
    ModelInfo,
    PublishedNaming,
    Publisher,
    published_namings,
)
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.vit.vit_config import ViTConfig

SOURCE = "google-research/big_vision"
GOOGLE = Publisher(
    source=SOURCE,
    licence=shared.apache(SOURCE, SOURCE),
    papers=("2502.14786",),
    repository="google/{}",
)


class Size(NamedTuple):
    """Sizes of both networks.

    - `google`: Google's name of the size; keys of `SIZES` are Equimo's and timm's names.
    - `vision`, `words`: dimensions of the networks for pictures and for texts.
    - `parameters`: parameters of the network for texts.

    The giant model has the network for texts of so400m, with a projection to the width of its
    vectors of pictures.
    """

    google: str
    vision: shared.Dimensions
    words: shared.Dimensions
    parameters: int


SIZES = {
    "b": Size("base", shared.BASE, shared.BASE, 282_303_744),
    "l": Size("large", shared.LARGE, shared.LARGE, 565_570_560),
    "so400m": Size("so400m", shared.SO400M, shared.SO400M, 707_782_896),
    "giantopt": Size("giant-opt", (1536, 40, 16, 6144), shared.SO400M, 708_225_648),
}

# Neither Equimo nor timm has the networks for texts and the dual encoders.
NO_OTHER_FILES: dict[str, Any] = dict(aliases=(), archive="", mirrors=())

# size, patch, pixels, parameters, whether timm has the exact GELU, zero-shot accuracy on
# ImageNet-1k (`README_siglip2.md` of google-research/big_vision)
VARIANTS = (
    ("b", 16, 224, 92_884_224, True, 78.2),
    ("b", 16, 256, 92_930_304, True, 79.1),
    ("b", 16, 384, 93_176_064, True, 80.6),
    ("b", 16, 512, 93_520_128, True, 81.2),
    ("b", 32, 256, 94_552_320, False, 74.0),
    ("l", 16, 256, 315_956_224, True, 82.5),
    ("l", 16, 384, 316_283_904, True, 83.1),
    ("l", 16, 512, 316_742_656, False, 83.5),
    ("so400m", 14, 224, 427_680_704, True, 83.2),
    ("so400m", 14, 378, 428_225_600, True, 84.1),
    ("so400m", 16, 256, 427_888_064, False, 83.4),
    ("so400m", 16, 384, 428_256_704, False, 84.1),
    ("so400m", 16, 512, 428_772_800, False, 84.3),
    ("giantopt", 16, 256, 1_163_168_256, False, 84.5),
    ("giantopt", 16, 384, 1_163_659_776, False, 85.0),
)


def _vision(
    size: str, patch: int, pixels: int, parameters: int, has_exact_gelu: bool, accuracy: float
) -> ModelInfo:
    """Return the registry's row of one SigLIP 2 network for pictures.

    **Arguments:**

    - `size`: a key of `SIZES`.
    - `patch`, `pixels`: the sides of a patch and of a picture.
    - `parameters`: the number of parameters.
    - `has_exact_gelu`: whether timm's network has the exact GELU.
    - `accuracy`: the zero-shot accuracy on ImageNet-1k in percent.
    """
    name = f"siglip2_vit{size}{patch}_{pixels}"
    google = SIZES[size].google
    hub_name = f"siglip2-{google}-patch{patch}-{384 if pixels == 378 else pixels}"
    in_timm = f"vit_{google.replace('-', '')}_patch{patch}_siglip_{pixels}.v2_webli"
    config = _vit(size, patch, pixels)
    exact_gelu = replace(config, activation="gelu")
    return ModelInfo(
        name=name,
        family="siglip2",
        aliases=(hub_name, f"timm/{in_timm}"),
        config=config,
        published=(
            PublishedNaming(huggingface_names.SIGLIP_VIT, config, options=("attention pool",)),
            PublishedNaming(equimo_names.VIT, replace(config, pool=None)),
            PublishedNaming(
                timm_names.VIT, config, library_config=exact_gelu if has_exact_gelu else None
            ),
        ),
        preprocessing=shared.centred(size=(pixels, pixels)),
        publisher=GOOGLE,
        archive=f"{name}.tar.lz4",
        **GOOGLE.hub_fields(hub_name, INDEX if size == "giantopt" else TENSORS),
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        pooler="attention with a learned query; none for Equimo's archives, which lack it",
        reported=GOOGLE.report_results("README_siglip2.md", IMAGENET, zero_shot=accuracy),
    )


def _vit(size: str, patch: int, pixels: int) -> ViTConfig:
    """Return the configuration of the network for pictures of a size, patch side and picture side
    in pixels."""
    return shared.plain_vit(
        *SIZES[size].vision,
        activation="gelu_tanh",
        norm_eps=1e-6,
        patch_size=patch,
        cls_token=False,
        positions=LearnedPositions(grid=pixels // patch, cls_token=False),
        pool="attention",
    )


def _text(size: str, vision: ModelInfo) -> ModelInfo:
    """Return the registry's row of the network for texts that was trained together with the network
    for pictures `vision`. `size` is a key of `SIZES`."""
    config = TextConfig(*SIZES[size].words, projection=vision.config.dim)
    return replace(
        vision,
        name=f"{vision.name}_text",
        family="siglip2_text",
        config=config,
        published=published_namings(config, huggingface_names.SIGLIP_TEXT),
        parameters=SIZES[size].parameters,
        pooler="a linear layer on the last token",
        reported=(),
        **NO_OTHER_FILES,
    )


def _dual(vision: ModelInfo, text: ModelInfo) -> ModelInfo:
    """Return the registry's row of the dual encoder of a network for pictures (`vision`) and one
    for texts (`text`). It also has the scale and the bias of its logits."""
    assert isinstance(vision.config, ViTConfig) and isinstance(text.config, TextConfig)
    config = DualConfig(vision.config, text.config)
    return replace(
        vision,
        name=f"{vision.name}_dual",
        family="siglip2_dual",
        config=config,
        published=published_namings(config, huggingface_names.SIGLIP_DUAL),
        parameters=vision.parameters + text.parameters + 2,
        pooler="",
        **NO_OTHER_FILES,
    )


# size, parameters of the vision transformer
NAFLEX_VARIANTS = (("b", 92_930_304), ("so400m", 427_888_064))


def _naflex(size: str, parameters: int) -> tuple[ModelInfo, ...]:
    """Return the registry's rows of one SigLIP 2 NaFlex: for pictures of any aspect ratio, for
    texts, and the dual encoder of both.

    `size` is a key of `SIZES`, and `parameters` the number of parameters of the network for
    pictures.
    """
    hub_name = f"siglip2-{SIZES[size].google}-patch16-naflex"
    config = NaFlexConfig(*SIZES[size].vision)
    vision = ModelInfo(
        name=f"siglip2_vit{size}16_naflex",
        family="siglip2_naflex",
        aliases=(hub_name,),
        config=config,
        published=(PublishedNaming(huggingface_names.SIGLIP2_VIT, config),),
        preprocessing=shared.centred(size=(256, 256), multiple=16, padded=True),
        publisher=GOOGLE,
        **GOOGLE.hub_fields(hub_name),
        parameters=parameters,
        pooler="attention with a learned query",
    )
    text = _text(size, vision)
    assert isinstance(text.config, TextConfig)
    dual = NaFlexDualConfig(config, text.config)
    dual_model = replace(
        vision,
        name=f"{vision.name}_dual",
        family="siglip2_naflex_dual",
        config=dual,
        published=published_namings(dual, huggingface_names.SIGLIP2_DUAL),
        parameters=vision.parameters + text.parameters + 2,
        pooler="",
        **NO_OTHER_FILES,
    )
    return vision, text, dual_model


_VISION = tuple(_vision(*row) for row in VARIANTS)
_TEXT = tuple(_text(size, vision) for (size, *_), vision in zip(VARIANTS, _VISION, strict=True))
_NAFLEX = tuple(model for row in NAFLEX_VARIANTS for model in _naflex(*row))
MODELS = (*_VISION, *_TEXT, *map(_dual, _VISION, _TEXT), *_NAFLEX)
