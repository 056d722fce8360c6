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

from weights.namings import equimo_names, original_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions, RopeGrid
from zoo.architectures.reported import IMAGENET, reported
from zoo.architectures.vit.vit_config import ViTConfig

SOURCE = "wangf3014/ViT-5"

# size, dimensions, parameters, and how much of ImageNet-1k is right, where `README.md` says so
VARIANTS = (
    ("small", shared.SMALL, 22_050_280, None),
    ("base", shared.BASE, 86_563_816, 84.2),
    ("large", shared.LARGE, 304_311_272, None),
    ("xlarge", (1152, 28, 16, 4608), 448_574_824, None),
)


def _model(
    size: str, dimensions: shared.Dimensions, parameters: int, right: float | None
) -> ModelInfo:
    name = f"vit5_{size}"
    config = ViTConfig(
        *dimensions,
        activation="gelu_tanh",
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
    return ModelInfo(
        name=name,
        family="vit5",
        config=config,
        namings=(original_names.VIT5, equimo_names.VIT),
        preprocessing=shared.imagenet(resize=224, resample="bicubic"),
        licence=shared.apache(SOURCE, SOURCE),
        checkpoint=f"{name}_patch16_224.pth",
        archive=f"{name}.tar.lz4",
        parameters=parameters,
        source=SOURCE,
        papers=("2602.08071",),
        pooler="the mean of the patches; for the original's weights the class token",
        labels=shared.IMAGENET,
        published={"original": replace(config, activation="gelu", norm_bias=False, pool="token")},
        reported=reported(f"README.md of {SOURCE}", IMAGENET, classifier=right),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
