"""The plain vision transformer (Dosovitskiy et al., 2020, arXiv:2010.11929), a classifier of
ImageNet-1k.

Equimo's network and those that weights are published for differ in detail: Equimo has the tanh
GELU, an epsilon of 1e-5 and the mean of the patches before the classifier, timm (1.0.31,
`VisionTransformer`) and transformers (5.23, `ViTForImageClassification`) the exact GELU, 1e-6 and
1e-12, and the class token. Whose weights they are decides.
"""

from dataclasses import replace

from weights.namings import equimo_names, huggingface_names, timm_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.reported import IMAGENET, reported
from zoo.architectures.vit.vit_options import TIMM_OPTIONS

SOURCE = "google-research/vision_transformer"

# size, dimensions, patch, parameters, and how much of ImageNet-1k is right by the classifier that
# timm publishes for it, if any (`results/results-imagenet.csv`)
VARIANTS = (
    ("tiny", shared.TINY, 16, 5_717_416, 75.5),
    ("tiny", shared.TINY, 32, 6_131_560, None),
    ("small", shared.SMALL, 16, 22_050_664, 81.4),
    ("small", shared.SMALL, 32, 22_878_952, 76.0),
    ("base", shared.BASE, 16, 86_567_656, 84.5),
    ("base", shared.BASE, 32, 88_224_232, 80.7),
    ("large", shared.LARGE, 16, 304_326_632, 85.8),
    ("large", shared.LARGE, 32, 306_535_400, None),
    ("huge", (1280, 32, 16, 5120), 14, 632_045_800, None),
    ("huge", (1280, 32, 16, 5120), 16, 632_199_400, None),
)


def _model(
    size: str, dimensions: shared.Dimensions, patch: int, parameters: int, right: float | None
) -> ModelInfo:
    name = f"vit_{size}_patch{patch}_224"
    repository = f"timm/{name}.augreg_in21k_ft_in1k" if right else ""
    config = shared.plain_vit(
        *dimensions,
        activation="gelu_tanh",
        patch_size=patch,
        positions=LearnedPositions(grid=224 // patch, antialias=True),
        pool="mean",
        classes=1000,
    )
    return ModelInfo(
        name=name,
        family="vit",
        config=config,
        namings=(
            *(timm_names.VIT, equimo_names.VIT, huggingface_names.VIT),
            timm_names.AVERAGED_VIT,
        ),
        options={"timm": TIMM_OPTIONS},
        # timm's for the weights of "How to train your ViT": 224 / 0.9 for the shorter edge.
        preprocessing=shared.centred(resize=248, resample="bicubic", crop_rounding="half_even"),
        licence=shared.apache(SOURCE, "huggingface/pytorch-image-models"),
        archive=f"{name}.tar.lz4",
        repository=repository,
        hub=(shared.safetensors(repository),) if repository else (),
        parameters=parameters,
        source=SOURCE,
        papers=("2010.11929",),
        pooler="the mean of the patches; for weights of timm or transformers the class token",
        labels=shared.IMAGENET,
        published={
            "timm": replace(config, activation="gelu", norm_eps=1e-6, pool="token"),
            "huggingface": replace(config, activation="gelu", norm_eps=1e-12, pool="token"),
        },
        reported=reported(
            "results/results-imagenet.csv of huggingface/pytorch-image-models",
            IMAGENET,
            classifier=right,
        ),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
