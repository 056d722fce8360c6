"""Published models of ConvNeXt (Liu et al., 2022, arXiv:2201.03545) and of its second version (Woo
et al., 2023, arXiv:2301.00808): classifiers of ImageNet-1k that were trained on no other data.

In transformers (5.23) the norm after the last stage has an epsilon of 1e-12. The authors and timm
(1.0.31) have 1e-6 in all norms.
"""

from dataclasses import replace

from weights.namings import convnext_names
from zoo.architectures.convnext.convnext_config import ConvNeXtConfig
from zoo.architectures.entry import (
    IMAGENET,
    Licence,
    ModelInfo,
    PublishedNaming,
    Publisher,
    published_namings,
)
from zoo.architectures.families import shared

RESULTS = "#results-and-pre-trained-models"
FIRST = Publisher(
    source="facebookresearch/ConvNeXt",
    licence=shared.mit("facebookresearch/ConvNeXt", RESULTS),
    papers=("2201.03545",),
    repository="facebook/convnext-{}-224",
)
SECOND = Publisher(
    source="facebookresearch/ConvNeXt-V2",
    licence=Licence(
        name="Creative Commons Attribution-NonCommercial 4.0",
        text="cc-by-nc-4.0.txt",
        page="https://github.com/facebookresearch/ConvNeXt-V2#license",
        download=f"https://github.com/facebookresearch/ConvNeXt-V2{RESULTS}",
    ),
    papers=("2301.00808",),
    repository="facebook/convnextv2-{}-1k-224",
)

LARGE = ConvNeXtConfig(depths=(3, 3, 27, 3), dims=(192, 384, 768, 1536))

# size, blocks and channels, parameters, accuracy on ImageNet-1k (`README.md`)
VARIANTS = (
    ("tiny", shared.CONVNEXT_TINY, 28_589_128, 82.1),
    ("small", shared.CONVNEXT_SMALL, 50_223_688, 83.1),
    ("base", shared.CONVNEXT_BASE, 88_591_464, 83.8),
    ("large", LARGE, 197_767_336, 84.3),
)

# The same for the second version.
SECOND_VARIANTS = (
    ("atto", ConvNeXtConfig((2, 2, 6, 2), (40, 80, 160, 320)), 3_708_400, 76.7),
    ("femto", ConvNeXtConfig((2, 2, 6, 2), (48, 96, 192, 384)), 5_233_240, 78.5),
    ("pico", ConvNeXtConfig((2, 2, 6, 2), (64, 128, 256, 512)), 9_066_280, 80.3),
    ("nano", ConvNeXtConfig((2, 2, 8, 2), (80, 160, 320, 640)), 15_623_800, 81.9),
    ("tiny", shared.CONVNEXT_TINY, 28_635_496, 83.0),
    ("base", shared.CONVNEXT_BASE, 88_717_800, 84.9),
    ("large", LARGE, 197_956_840, 85.8),
    ("huge", ConvNeXtConfig((3, 3, 27, 3), (352, 704, 1408, 2816)), 660_289_640, 86.3),
)


def _model(
    size: str, config: ConvNeXtConfig, parameters: int, accuracy: float, is_second: bool
) -> ModelInfo:
    """Return the registry's row of one ConvNeXt classifier.

    **Arguments:**

    - `size`: the part of its name, such as `tiny`.
    - `config`: the blocks and channels of its stages.
    - `parameters`: the number of parameters.
    - `accuracy`: the published accuracy on ImageNet-1k in percent.
    - `is_second`: whether it is a ConvNeXt V2.
    """
    config = replace(config, classes=1000)
    if is_second:
        config = replace(config, layer_scale=None, response_norm=True)
    version, publisher = ("convnextv2", SECOND) if is_second else ("convnext", FIRST)
    in_timm = f"timm/{version}_{size}.{'fcmae_ft_in1k' if is_second else 'fb_in1k'}"
    return ModelInfo(
        name=f"{version}_{size}",
        family="convnext",
        aliases=(in_timm,),
        config=config,
        published=(
            PublishedNaming(convnext_names.META, config),
            PublishedNaming(convnext_names.CLASSIFIER, replace(config, final_norm_eps=1e-12)),
            *published_namings(config, convnext_names.TIMM, convnext_names.TIMM_CONVOLVED),
        ),
        # The shorter edge is resized to 224 / 0.875 in both libraries.
        preprocessing=shared.imagenet(resize=256, resample="bicubic"),
        publisher=publisher,
        checkpoint=f"{version}_{size}_1k_224_ema.{'pt' if is_second else 'pth'}",
        **publisher.hub_fields(size),
        mirrors=(shared.safetensors(in_timm),),
        parameters=parameters,
        pooler=shared.MEAN_OF_MAP,
        labels=shared.IMAGENET,
        reported=publisher.report_results("README.md", IMAGENET, classifier=accuracy),
    )


MODELS = (
    *(_model(*row, is_second=False) for row in VARIANTS),
    *(_model(*row, is_second=True) for row in SECOND_VARIANTS),
)
