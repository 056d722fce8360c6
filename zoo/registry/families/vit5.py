"""ViT-5 (Wang et al., 2026, arXiv:2602.08071), a classifier of ImageNet-1k: a vision transformer
with the habits of language models.

Learned and rotary positions at once, registers that are rotated as a small image of their own,
RMSNorm, normed queries and keys, no biases of them. Equimo's network and the original, for which
weights are published, differ in detail: the original has the exact GELU, norms without a bias, and
the class token before the classifier. It also keeps the registers behind the patches, which changes
nothing. Neighbouring channels are rotated together, as in the original and in Equimo 2.7; Equimo
1.1.0 takes halves.

Source: `models_vit5.py` and `rope.py` of wangf3014/ViT-5.
"""

from dataclasses import replace

from weights.namings import equimo, original
from zoo.models.config import LearnedPositions, Preprocessing, RopeGrid, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.statistics import IMAGENET_MEAN, IMAGENET_STD

LICENCE = Licence(
    name="Apache License 2.0",
    text="apache-2.0.txt",
    page="https://github.com/wangf3014/ViT-5/blob/main/LICENSE",
    download="https://github.com/wangf3014/ViT-5",
)

PREPROCESSING = Preprocessing(
    mean=IMAGENET_MEAN, std=IMAGENET_STD, size=(224, 224), resize=224, resample="bicubic"
)


def _config(dim: int, depth: int, heads: int) -> ViTConfig:
    return ViTConfig(
        dim=dim,
        depth=depth,
        heads=heads,
        hidden=4 * dim,
        gelu="tanh",
        qkv_bias=False,
        qk_norm=True,
        norm="rms",
        norm_eps=1e-6,
        layer_scale=1e-4,
        mask_token=False,
        positions=LearnedPositions(grid=14, cls_token=False),
        rope=RopeGrid(),
        pool="mean",
        classes=1000,
    )


# name, configuration, parameters
VARIANTS = (
    ("vit5_small", _config(384, 12, 6), 22_050_280),
    ("vit5_base", _config(768, 12, 12), 86_563_816),
    ("vit5_large", _config(1024, 24, 16), 304_311_272),
    ("vit5_xlarge", _config(1152, 28, 16), 448_574_824),
)

NAMINGS = (original.VIT5, equimo.VIT)


def _model(name: str, config: ViTConfig, parameters: int) -> ModelInfo:
    return ModelInfo(
        name=name,
        family="vit5",
        aliases=(),
        config=config,
        namings=NAMINGS,
        preprocessing=PREPROCESSING,
        licence=LICENCE,
        checkpoint=f"{name}_patch16_224.pth",
        digest="",
        archive=f"{name}.tar.lz4",
        repository="",
        hub=(),
        parameters=parameters,
        source="wangf3014/ViT-5",
        pooler="the mean of the patches; for the original's weights the class token",
        published={"original": replace(config, gelu="erf", norm_bias=False, pool="token")},
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
