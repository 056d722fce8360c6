"""SigLIP 2's vision transformers (Tschannen et al., 2025, arXiv:2502.14786), without the tower for
texts.

`pooler_output` is the image's embedding, as `SiglipVisionModel` of transformers gives it. Equimo's
archives leave that head out: an export of one has `last_hidden_state` only. The network for 378
pixels is called 384 by Google, and its 27 x 27 patches leave a rest of 6 pixels there.

The GELU is the original's approximation by a hyperbolic tangent, as in transformers. timm (1.0.31)
runs some of the same weights with the exact one, which moves the features by 1e-3.
"""

from dataclasses import replace

from weights.namings import equimo_names, huggingface_names, timm_names
from zoo.models.config import LearnedPositions
from zoo.registry.entry import ModelInfo
from zoo.registry.families import shared

SOURCE = "google-research/big_vision"

# Google's name for it by Equimo's and timm's, and its dimensions.
SIZES = {
    "b": ("base", shared.BASE),
    "l": ("large", shared.LARGE),
    "so400m": ("so400m", shared.SO400M),
    "giantopt": ("giant-opt", (1536, 40, 16, 6144)),
}

# size, patch, pixels, parameters, whether timm has the exact GELU
VARIANTS = (
    ("b", 16, 224, 92_884_224, True),
    ("b", 16, 256, 92_930_304, True),
    ("b", 16, 384, 93_176_064, True),
    ("b", 16, 512, 93_520_128, True),
    ("b", 32, 256, 94_552_320, False),
    ("l", 16, 256, 315_956_224, True),
    ("l", 16, 384, 316_283_904, True),
    ("l", 16, 512, 316_742_656, False),
    ("so400m", 14, 224, 427_680_704, True),
    ("so400m", 14, 378, 428_225_600, True),
    ("so400m", 16, 256, 427_888_064, False),
    ("so400m", 16, 384, 428_256_704, False),
    ("so400m", 16, 512, 428_772_800, False),
    ("giantopt", 16, 256, 1_163_168_256, False),
    ("giantopt", 16, 384, 1_163_659_776, False),
)


def _model(size: str, patch: int, pixels: int, parameters: int, exact: bool) -> ModelInfo:
    name = f"siglip2_vit{size}{patch}_{pixels}"
    google, dimensions = SIZES[size]
    called = f"siglip2-{google}-patch{patch}-{384 if pixels == 378 else pixels}"
    in_timm = f"vit_{google.replace('-', '')}_patch{patch}_siglip_{pixels}.v2_webli"
    config = shared.plain_vit(
        *dimensions,
        activation="gelu_tanh",
        norm_eps=1e-6,
        patch_size=patch,
        cls_token=False,
        positions=LearnedPositions(grid=pixels // patch, cls_token=False),
        pool="attention",
    )
    return ModelInfo(
        name=name,
        family="siglip2",
        aliases=(called, f"timm/{in_timm}"),
        config=config,
        namings=(huggingface_names.SIGLIP_VIT, equimo_names.VIT, timm_names.VIT),
        preprocessing=shared.centred(size=(pixels, pixels)),
        licence=shared.apache(SOURCE, SOURCE),
        archive=f"{name}.tar.lz4",
        repository=f"google/{called}",
        hub=(shared.safetensors(f"google/{called}", sharded=size == "giantopt"),),
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        source=SOURCE,
        pooler="attention with a learned query; none for Equimo's archives, which lack it",
        published={"equimo": replace(config, pool=None)},
        libraries={"timm": replace(config, activation="gelu")} if exact else {},
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
