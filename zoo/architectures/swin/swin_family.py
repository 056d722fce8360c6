"""Published models of Swin V2 (Liu et al., 2021, arXiv:2111.09883): classifiers of ImageNet-1k.
Some were first trained on ImageNet-22k, with smaller pictures and windows.

The authors' networks and timm's (1.0.31) are the same. transformers (5.24) computes different
results if the size of a map is not a multiple of the window, and where a mask of -100 is not equal
to a larger one. In the authors' files, a layer that halves a map belongs to the stage before it. In
timm's files it belongs to the stage after it.
"""

from dataclasses import replace
from typing import NamedTuple

from weights.namings import swin_names
from zoo.architectures.entry import (
    IMAGENET,
    ModelInfo,
    PublishedNaming,
    Publisher,
    published_namings,
)
from zoo.architectures.families import shared
from zoo.architectures.swin.swin_config import SwinConfig

SOURCE = "microsoft/Swin-Transformer"
MICROSOFT = Publisher(
    source=SOURCE,
    licence=shared.mit(SOURCE, "#main-results-on-imagenet-with-pretrained-models"),
    papers=("2111.09883",),
    repository="microsoft/swinv2-{}",
)

PRETRAINED_WINDOWS = (12, 12, 12, 6)
"""Sides of the windows of earlier training, with pictures of 192 pixels."""


class SwinSize(NamedTuple):
    """Sizes of a network: channels of the first stage, and blocks and heads of all stages."""

    embed: int
    depths: tuple[int, ...]
    heads: tuple[int, ...]


SIZES = {
    "tiny": SwinSize(96, (2, 2, 6, 2), (3, 6, 12, 24)),
    "small": SwinSize(96, (2, 2, 18, 2), (3, 6, 12, 24)),
    "base": SwinSize(128, (2, 2, 18, 2), (4, 8, 16, 32)),
    "large": SwinSize(192, (2, 2, 18, 2), (6, 12, 24, 48)),
}

# size, windows and pictures in the name, side of a window and of pictures, training on
# ImageNet-22k, parameters, and accuracy on ImageNet-1k (`README.md`)
VARIANTS = (
    ("tiny", "window8_256", 8, 256, "", 28_347_154, 81.8),
    ("tiny", "window16_256", 16, 256, "", 28_347_154, 82.8),
    ("small", "window8_256", 8, 256, "", 49_728_418, 83.7),
    ("small", "window16_256", 16, 256, "", 49_728_418, 84.1),
    ("base", "window8_256", 8, 256, "", 87_918_816, 84.2),
    ("base", "window16_256", 16, 256, "", 87_918_816, 84.6),
    ("base", "window12_192", 12, 192, "22k", 109_280_841, None),
    ("base", "window12to16_192to256", 16, 256, "22k to 1k", 87_918_816, 86.2),
    ("base", "window12to24_192to384", 24, 384, "22k to 1k", 87_918_816, 87.1),
    ("large", "window12_192", 12, 192, "22k", 228_772_549, None),
    ("large", "window12to16_192to256", 16, 256, "22k to 1k", 196_739_932, 86.9),
    ("large", "window12to24_192to384", 24, 384, "22k to 1k", 196_739_932, 87.6),
)

# Suffixes of the names of files, of transformers' and of timm's repositories, by the training.
SUFFIXES = {
    "": ("", "", "ms_in1k"),
    "22k": ("_22k", "-22k", "ms_in22k"),
    "22k to 1k": ("_22kto1k_ft", "-22kto1k-ft", "ms_in22k_ft_in1k"),
}


def _model(
    size: str,
    setup: str,
    window: int,
    side: int,
    training: str,
    parameters: int,
    accuracy: float | None,
) -> ModelInfo:
    """Return the registry's row of one Swin V2.

    **Arguments:**

    - `size`: a key of `SIZES`.
    - `setup`: the windows and pictures in the name, such as `window8_256`.
    - `window`, `side`: the sides of a window and of a picture.
    - `training`: the training on ImageNet-22k, a key of `SUFFIXES`.
    - `parameters`: the number of parameters.
    - `accuracy`: the accuracy on ImageNet-1k in percent; None if the classes are those of
      ImageNet-22k.
    """
    file_suffix, hub_suffix, timm_suffix = SUFFIXES[training]
    config = SwinConfig(
        *SIZES[size],
        window=window,
        grid=(side // 4, side // 4),
        pretrained=PRETRAINED_WINDOWS if "to" in training else (0, 0, 0, 0),
        classes=21_841 if training == "22k" else 1000,
    )
    name = f"swinv2_{size}_{setup}"
    hub_setup = setup.replace("_", "-")
    mirror = f"timm/{name}.{timm_suffix}"
    return ModelInfo(
        name=name,
        family="swinv2",
        aliases=(mirror,),
        config=config,
        published=(
            *published_namings(config, swin_names.ORIGINAL, swin_names.TIMM),
            PublishedNaming(swin_names.HUGGINGFACE, replace(config, library="transformers")),
        ),
        # timm's preprocessing: the shorter edge is resized to 256 / 0.9. Pictures of 384 pixels are
        # not cropped.
        preprocessing=shared.imagenet(
            resize=side if side == 384 else int(side / 0.9),
            resample="bicubic",
            size=(side, side),
            crop_rounding="half_even",
        ),
        publisher=MICROSOFT,
        checkpoint=f"swinv2_{size}_patch4_{setup}{file_suffix}.pth",
        **MICROSOFT.hub_fields(f"{size}-patch4-{hub_setup}{hub_suffix}"),
        mirrors=(shared.safetensors(mirror),),
        parameters=parameters,
        pooler=shared.MEAN_OF_MAP,
        labels=shared.IMAGENET,
        reported=MICROSOFT.report_results("README.md", IMAGENET, classifier=accuracy),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
