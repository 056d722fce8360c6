"""DeiT (Touvron et al., 2020, arXiv:2012.12877): the plain vision transformer, trained on
ImageNet-1k alone, and the same with a distillation token.

That token stands behind the class token, has a learned position, and learned from a convolutional
network; it has a classifier of its own, and `logits` are the mean of both. The authors' files and
timm's have the same names. transformers (5.24) has other names, an epsilon of 1e-12 where the
authors have 1e-6, and interpolates positions without antialiasing, where timm (1.0.31) antialiases.
It has networks without the token as `ViTForImageClassification`.

Source: `models.py` and `README.md` of facebookresearch/deit.
"""

from dataclasses import replace
from typing import NamedTuple

from weights.namings import huggingface_names, timm_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.reported import IMAGENET, reported

SOURCE = "facebookresearch/deit"


class DeitVariant(NamedTuple):
    """A network of both kinds: parameters, the digests in the names of the authors' files, and how
    much of ImageNet-1k is right, without the distillation token and with it."""

    size: str
    dimensions: shared.Dimensions
    side: int
    parameters: tuple[int, int]
    digests: tuple[str, str]
    right: tuple[float, float]


VARIANTS = (
    DeitVariant(
        *("tiny", shared.TINY, 224, (5_717_416, 5_910_800)),
        *(("a1311bcf", "b40b3cf7"), (72.2, 74.5)),
    ),
    DeitVariant(
        *("small", shared.SMALL, 224, (22_050_664, 22_436_432)),
        *(("cd65a155", "649709d9"), (79.9, 81.2)),
    ),
    DeitVariant(
        *("base", shared.BASE, 224, (86_567_656, 87_338_192)),
        *(("b5f2ef4d", "df68dfff"), (81.8, 83.4)),
    ),
    DeitVariant(
        *("base", shared.BASE, 384, (86_859_496, 87_630_032)),
        *(("8de9b5d1", "d0272ac0"), (82.9, 85.2)),
    ),
)


def _model(variant: DeitVariant, distilled: bool) -> ModelInfo:
    side, middle = variant.side, "_distilled" if distilled else ""
    name = f"deit_{variant.size}{middle}_patch16_{side}"
    repository = f"facebook/{name.replace('_', '-')}"
    in_timm = f"timm/{name}.fb_in1k"
    tokens = int(distilled)
    config = shared.plain_vit(
        *variant.dimensions,
        norm_eps=1e-6,
        registers=tokens,
        positions=LearnedPositions(grid=side // 16, antialias=True, registers=tokens),
        classes=1000,
        distilled=distilled,
    )
    in_transformers = replace(
        config, norm_eps=1e-12, positions=LearnedPositions(grid=side // 16, registers=tokens)
    )
    plain = (timm_names.VIT, huggingface_names.VIT)
    marked = (
        *(timm_names.DISTILLED_VIT, huggingface_names.DISTILLED_VIT),
        huggingface_names.TWO_HEADED_VIT,
    )
    return ModelInfo(
        name=name,
        family="deit" if distilled else "vit",
        aliases=(in_timm,),
        config=config,
        namings=marked if distilled else plain,
        # 256 / 224 for the shorter edge.
        preprocessing=shared.imagenet(
            resize=int(256 / 224 * side), resample="bicubic", size=(side, side)
        ),
        licence=shared.apache(SOURCE, SOURCE),
        checkpoint=f"{name}-{variant.digests[distilled]}.pth",
        digest=variant.digests[distilled],
        repository=repository,
        hub=(shared.safetensors(repository),),
        mirrors=(shared.safetensors(in_timm),),
        parameters=variant.parameters[distilled],
        source=SOURCE,
        papers=("2012.12877",),
        pooler=shared.CLASS_TOKEN,
        labels=shared.IMAGENET,
        published={"huggingface": in_transformers},
        reported=reported(f"README.md of {SOURCE}", IMAGENET, classifier=variant.right[distilled]),
    )


MODELS = tuple(_model(row, distilled) for distilled in (False, True) for row in VARIANTS)
