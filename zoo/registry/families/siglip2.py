"""SigLIP 2's vision transformers (Tschannen et al., 2025, arXiv:2502.14786), without the tower for
texts.

`pooler_output` is the image's embedding, as `SiglipVisionModel` of transformers gives it. Equimo's
archives leave that head out: an export of one has `last_hidden_state` only. The network for 378
pixels is called 384 by Google, and its 27 x 27 patches leave a rest of 6 pixels there.

The GELU is the original's approximation by a hyperbolic tangent, as in transformers. timm (1.0.31)
runs some of the same weights with the exact one, which moves the features by 1e-3.
"""

from dataclasses import replace

from weights.namings import equimo, huggingface, timm
from weights.sources.hub import HubFile
from zoo.models.config import LearnedPositions, Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.equimo_archives import equimo_file
from zoo.registry.families.statistics import HALF

LICENCE = Licence(
    name="Apache License 2.0",
    text="apache-2.0.txt",
    page="https://github.com/google-research/big_vision/blob/main/LICENSE",
    download="https://github.com/google-research/big_vision",
)

# Equimo's name for it, Google's, timm's: dim, depth, heads, hidden.
SIZES = {
    "b": ("base", "base", 768, 12, 12, 3072),
    "l": ("large", "large", 1024, 24, 16, 4096),
    "so400m": ("so400m", "so400m", 1152, 27, 16, 4304),
    "giantopt": ("giant-opt", "giantopt", 1536, 40, 16, 6144),
}

# size, patch, pixels, parameters
VARIANTS = (
    ("b", 16, 224, 92_884_224),
    ("b", 16, 256, 92_930_304),
    ("b", 16, 384, 93_176_064),
    ("b", 16, 512, 93_520_128),
    ("b", 32, 256, 94_552_320),
    ("l", 16, 256, 315_956_224),
    ("l", 16, 384, 316_283_904),
    ("l", 16, 512, 316_742_656),
    ("so400m", 14, 224, 427_680_704),
    ("so400m", 14, 378, 428_225_600),
    ("so400m", 16, 256, 427_888_064),
    ("so400m", 16, 384, 428_256_704),
    ("so400m", 16, 512, 428_772_800),
    ("giantopt", 16, 256, 1_163_168_256),
    ("giantopt", 16, 384, 1_163_659_776),
)

NAMINGS = (huggingface.SIGLIP_VIT, equimo.VIT, timm.VIT)


def _config(dim: int, depth: int, heads: int, hidden: int, patch: int, pixels: int) -> ViTConfig:
    return ViTConfig(
        dim=dim,
        depth=depth,
        heads=heads,
        hidden=hidden,
        gelu="tanh",
        norm_eps=1e-6,
        layer_scale=None,
        patch_size=patch,
        cls_token=False,
        registers=0,
        mask_token=False,
        positions=LearnedPositions(grid=pixels // patch, cls_token=False),
        rope=None,
        pool="attention",
    )


def _hub(name: str, repository: str) -> tuple[HubFile, ...]:
    """transformers' file, which has the head; the largest is in pieces there."""
    if "giant" in repository:
        return (equimo_file(name),)
    return (HubFile(repository, "model.safetensors"), equimo_file(name))


def _model(size: str, patch: int, pixels: int, parameters: int) -> ModelInfo:
    name = f"siglip2_vit{size}{patch}_{pixels}"
    google, in_timm, dim, depth, heads, hidden = SIZES[size]
    repository = f"google/siglip2-{google}-patch{patch}-{384 if pixels == 378 else pixels}"
    config = _config(dim, depth, heads, hidden, patch, pixels)
    return ModelInfo(
        name=name,
        family="siglip2",
        aliases=(
            repository.removeprefix("google/"),
            f"timm/vit_{in_timm}_patch{patch}_siglip_{pixels}.v2_webli",
        ),
        config=config,
        namings=NAMINGS,
        preprocessing=Preprocessing(mean=HALF, std=HALF, size=(pixels, pixels)),
        licence=LICENCE,
        checkpoint="",
        digest="",
        archive=f"{name}.tar.lz4",
        repository=repository,
        hub=_hub(name, repository),
        parameters=parameters,
        source="google-research/big_vision",
        pooler="attention with a learned query; none for Equimo's archives, which lack it",
        published={"equimo": replace(config, pool=None)},
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
