"""The plain vision transformer (Dosovitskiy et al., 2020, arXiv:2010.11929), a classifier of
ImageNet-1k.

Equimo's network and those that weights are published for differ in detail: Equimo has the tanh
GELU, an epsilon of 1e-5 and the mean of the patches before the classifier, timm (1.0.31,
`VisionTransformer`) and transformers (5.23, `ViTForImageClassification`) the exact GELU, 1e-6 and
1e-12, and the class token. Whose weights they are decides.
"""

from dataclasses import replace

from weights.namings import equimo, huggingface, timm
from weights.sources.hub import HubFile
from zoo.models.config import LearnedPositions, Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.statistics import HALF

LICENCE = Licence(
    name="Apache License 2.0",
    text="apache-2.0.txt",
    page="https://github.com/google-research/vision_transformer/blob/main/LICENSE",
    download="https://github.com/huggingface/pytorch-image-models",
)

# timm's for the weights of "How to train your ViT": 224 / 0.9 for the shorter edge.
PREPROCESSING = Preprocessing(mean=HALF, std=HALF, size=(224, 224), resize=248, resample="bicubic")


def _config(dim: int, depth: int, heads: int, patch: int) -> ViTConfig:
    return ViTConfig(
        dim=dim,
        depth=depth,
        heads=heads,
        hidden=4 * dim,
        gelu="tanh",
        norm_eps=1e-5,
        layer_scale=None,
        patch_size=patch,
        registers=0,
        mask_token=False,
        positions=LearnedPositions(grid=224 // patch, antialias=True),
        rope=None,
        pool="mean",
        classes=1000,
    )


# name, configuration, parameters
VARIANTS = (
    ("vit_tiny_patch16_224", _config(192, 12, 3, 16), 5_717_416),
    ("vit_tiny_patch32_224", _config(192, 12, 3, 32), 6_131_560),
    ("vit_small_patch16_224", _config(384, 12, 6, 16), 22_050_664),
    ("vit_small_patch32_224", _config(384, 12, 6, 32), 22_878_952),
    ("vit_base_patch16_224", _config(768, 12, 12, 16), 86_567_656),
    ("vit_base_patch32_224", _config(768, 12, 12, 32), 88_224_232),
    ("vit_large_patch16_224", _config(1024, 24, 16, 16), 304_326_632),
    ("vit_large_patch32_224", _config(1024, 24, 16, 32), 306_535_400),
    ("vit_huge_patch14_224", _config(1280, 32, 16, 14), 632_045_800),
    ("vit_huge_patch16_224", _config(1280, 32, 16, 16), 632_199_400),
)

AUGREG = frozenset(
    {
        "vit_tiny_patch16_224",
        "vit_small_patch16_224",
        "vit_small_patch32_224",
        "vit_base_patch16_224",
        "vit_base_patch32_224",
        "vit_large_patch16_224",
    }
)
"""Those that timm publishes a classifier of ImageNet-1k for."""

NAMINGS = (timm.VIT, equimo.VIT, huggingface.VIT)


def _model(name: str, config: ViTConfig, parameters: int) -> ModelInfo:
    repository = f"timm/{name}.augreg_in21k_ft_in1k" if name in AUGREG else ""
    return ModelInfo(
        name=name,
        family="vit",
        aliases=(),
        config=config,
        namings=NAMINGS,
        preprocessing=PREPROCESSING,
        licence=LICENCE,
        checkpoint="",
        digest="",
        archive=f"{name}.tar.lz4",
        repository=repository,
        hub=(HubFile(repository, "model.safetensors"),) if repository else (),
        parameters=parameters,
        source="google-research/vision_transformer",
        pooler="the mean of the patches; for weights of timm or transformers the class token",
        published={
            "timm": replace(config, gelu="erf", norm_eps=1e-6, pool="token"),
            "huggingface": replace(config, gelu="erf", norm_eps=1e-12, pool="token"),
        },
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
