"""Published vision transformers: plain ViT, DeiT, DINOv2 and ViT-5."""

from dataclasses import replace
from typing import NamedTuple

from weights.namings import equimo_names, huggingface_names, meta_names, original_names, timm_names
from zoo.architectures.entry import (
    IMAGENET,
    NYU,
    HubFields,
    ModelInfo,
    PublishedNaming,
    Publisher,
    published_namings,
    report_results,
)
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions, RopeGrid
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.architectures.vit.vit_sizes import TIMM_OPTIONS

# The plain vision transformer (Dosovitskiy et al., 2020, arXiv:2010.11929), a classifier of
# ImageNet-1k.
#
# Equimo's network differs in detail from those that weights are published for. Equimo has the tanh
# GELU, an epsilon of 1e-5, and a classifier of the mean of the patches. timm (1.0.31,
# `VisionTransformer`) and transformers (5.23, `ViTForImageClassification`) have the exact GELU,
# epsilons of 1e-6 and 1e-12, and a classifier of the class token. The naming of the checkpoint
# determines the network.

VIT_SOURCE = "google-research/vision_transformer"
GOOGLE = Publisher(
    source=VIT_SOURCE,
    licence=shared.apache(VIT_SOURCE, "huggingface/pytorch-image-models"),
    papers=("2010.11929",),
    repository="timm/{}.augreg_in21k_ft_in1k",
)

# size, dimensions, patch, parameters, and accuracy on ImageNet-1k of the classifier that timm
# publishes for it, if any (`results/results-imagenet.csv`)
VIT_VARIANTS = (
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


def _vit(
    size: str, dimensions: shared.Dimensions, patch: int, parameters: int, accuracy: float | None
) -> ModelInfo:
    """Return the registry's row of one plain vision transformer.

    `patch` is the side of a patch in pixels, and `accuracy` the accuracy on ImageNet-1k of the
    classifier that timm publishes, in percent; None if timm publishes none.
    """
    name = f"vit_{size}_patch{patch}_224"
    config = shared.plain_vit(
        *dimensions,
        activation="gelu_tanh",
        patch_size=patch,
        positions=LearnedPositions(grid=224 // patch, antialias=True),
        pool="mean",
        classes=1000,
    )
    in_timm = replace(config, activation="gelu", norm_eps=1e-6, pool="token")
    return ModelInfo(
        name=name,
        family="vit",
        config=config,
        published=(
            PublishedNaming(timm_names.VIT, in_timm, options=TIMM_OPTIONS),
            PublishedNaming(equimo_names.VIT, config),
            PublishedNaming(huggingface_names.VIT, replace(in_timm, norm_eps=1e-12)),
            PublishedNaming(timm_names.AVERAGED_VIT, in_timm, options=TIMM_OPTIONS),
        ),
        # timm's preprocessing for the weights of "How to train your ViT": the shorter edge is
        # resized to 224 / 0.9.
        preprocessing=shared.centred(resize=248, resample="bicubic", crop_rounding="half_even"),
        publisher=GOOGLE,
        archive=f"{name}.tar.lz4",
        **(GOOGLE.hub_fields(name) if accuracy else HubFields()),
        parameters=parameters,
        pooler="the mean of the patches; for weights of timm or transformers the class token",
        labels=shared.IMAGENET,
        reported=report_results(
            "results/results-imagenet.csv of huggingface/pytorch-image-models",
            IMAGENET,
            classifier=accuracy,
        ),
    )


VIT_MODELS = tuple(_vit(*row) for row in VIT_VARIANTS)


# DeiT (Touvron et al., 2020, arXiv:2012.12877): the plain vision transformer, trained on
# ImageNet-1k alone, with and without a distillation token.
#
# The distillation token follows the class token and has a learned position. It was trained on the
# outputs of a convolutional network and has its own classifier; `logits` are the mean of both. The
# authors' files and timm's have the same tensor names. transformers (5.24) has other names and an
# epsilon of 1e-12 instead of 1e-6. It interpolates positions without antialiasing, timm (1.0.31)
# with antialiasing. Its class for networks without the token is `ViTForImageClassification`.
#
# Source: `models.py` and `README.md` of facebookresearch/deit.

DEIT_SOURCE = "facebookresearch/deit"
DEIT = Publisher(
    source=DEIT_SOURCE,
    licence=shared.apache(DEIT_SOURCE, DEIT_SOURCE),
    papers=("2012.12877",),
    repository="facebook/{}",
)


class DeitVariant(NamedTuple):
    """A size of DeiT. Pairs are for the network without the distillation token, then for the one
    with it.

    - `parameters`: numbers of parameters.
    - `digests`: the digests in the names of the authors' files.
    - `accuracies`: accuracies on ImageNet-1k in per cent.
    """

    size: str
    dimensions: shared.Dimensions
    side: int
    parameters: tuple[int, int]
    digests: tuple[str, str]
    accuracies: tuple[float, float]


DEIT_VARIANTS = (
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


def _deit(variant: DeitVariant, distilled: bool) -> ModelInfo:
    """Return the registry's row of the DeiT with these sizes. `distilled` says whether it has a
    distillation token."""
    side, middle = variant.side, "_distilled" if distilled else ""
    name = f"deit_{variant.size}{middle}_patch16_{side}"
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
    of_authors, *of_transformers = (timm_names.VIT, huggingface_names.VIT)
    if distilled:
        of_authors, *of_transformers = (
            *(timm_names.DISTILLED_VIT, huggingface_names.DISTILLED_VIT),
            huggingface_names.TWO_HEADED_VIT,
        )
    return ModelInfo(
        name=name,
        family="deit" if distilled else "vit",
        aliases=(in_timm,),
        config=config,
        published=(
            PublishedNaming(of_authors, config),
            *published_namings(in_transformers, *of_transformers),
        ),
        # The shorter edge is resized to 256 / 224 of the side.
        preprocessing=shared.imagenet(
            resize=int(256 / 224 * side), resample="bicubic", size=(side, side)
        ),
        publisher=DEIT,
        checkpoint=f"{name}-{variant.digests[distilled]}.pth",
        digest=variant.digests[distilled],
        **DEIT.hub_fields(name.replace("_", "-")),
        mirrors=(shared.safetensors(in_timm),),
        parameters=variant.parameters[distilled],
        pooler=shared.CLASS_TOKEN,
        labels=shared.IMAGENET,
        reported=DEIT.report_results(
            "README.md", IMAGENET, classifier=variant.accuracies[distilled]
        ),
    )


DEIT_MODELS = tuple(_deit(row, distilled) for distilled in (False, True) for row in DEIT_VARIANTS)


# DINOv2 vision transformers (Oquab et al., 2023, arXiv:2304.07193), with registers and without
# (Darcet et al., 2023, arXiv:2309.16588).
#
# Training ended at 518 x 518 pixels. The default size here is 224 x 224, as in transformers' image
# processor. Positions are interpolated as in `hubconf.py` and `dinov2/hub/backbones.py` of
# facebookresearch/dinov2. Networks without registers have an offset of 0.1 and no antialiasing.
# Networks with registers have antialiasing and no offset.

DINOV2_SOURCE = "facebookresearch/dinov2"
DINOV2 = Publisher(
    source=DINOV2_SOURCE,
    licence=shared.apache(DINOV2_SOURCE, f"{DINOV2_SOURCE}#pretrained-models"),
    papers=("2304.07193",),
    repository="facebook/dinov2-{}",
)
DINOV2_WITH_REGISTERS = replace(
    DINOV2,
    papers=("2304.07193", "2309.16588"),
    repository="facebook/dinov2-with-registers-{}",
)

PLAIN_POSITIONS = LearnedPositions(grid=37, offset=0.1)
WITH_REGISTERS = LearnedPositions(grid=37, antialias=True)


class Dinov2Results(NamedTuple):
    """Results of a size of DINOv2.

    - `without_registers`, `with_registers`: accuracies on ImageNet-1k by nearest neighbours and by
      a linear layer (`README.md`).
    - `depth`, `areas`: results without registers on NYU Depth v2 by a linear layer on four blocks,
      and on ADE20k at several scales (`MODEL_CARD.md`).
    """

    without_registers: tuple[float, float]
    with_registers: tuple[float, float]
    depth: float
    areas: float


# letter, size in transformers' and timm's names, dimensions, parameters without registers, results
DINOV2_VARIANTS = (
    (
        "s",
        "small",
        shared.SMALL,
        22_056_576,
        Dinov2Results((79.0, 81.1), (79.1, 80.9), 0.417, 47.2),
    ),
    ("b", "base", shared.BASE, 86_580_480, Dinov2Results((82.1, 84.5), (82.0, 84.6), 0.362, 51.3)),
    (
        "l",
        "large",
        shared.LARGE,
        304_368_640,
        Dinov2Results((83.5, 86.3), (83.8, 86.7), 0.333, 53.1),
    ),
    (
        "g",
        "giant",
        shared.GIANT,
        1_136_480_768,
        Dinov2Results((83.5, 86.5), (83.7, 87.1), 0.298, 53.0),
    ),
)


def _dinov2(
    letter: str,
    size: str,
    dimensions: shared.Dimensions,
    parameters: int,
    results: Dinov2Results,
    registers: int,
) -> ModelInfo:
    """Return the registry's row of one DINOv2.

    **Arguments:**

    - `letter`, `size`: the letter and the word of the size in names.
    - `dimensions`: width, blocks, heads and hidden channels.
    - `parameters`: the number of parameters without registers.
    - `results`: the published results of the size.
    - `registers`: the number of registers; 0 for a network without them.
    """
    config = shared.patches_of_14(
        *dimensions,
        ffn="swiglu_fused" if letter == "g" else "mlp",
        registers=registers,
        positions=WITH_REGISTERS if registers else PLAIN_POSITIONS,
    )
    # In timm's files with registers, the class token's position is added to the token.
    in_tokens = replace(config, positions=replace(WITH_REGISTERS, cls_token=False))
    base_name, suffix = f"dinov2_vit{letter}14", "_reg4" if registers else ""
    name = f"{base_name}_reg" if registers else base_name
    publisher = DINOV2_WITH_REGISTERS if registers else DINOV2
    in_timm = f"timm/vit_{size}_patch14{suffix}_dinov2.lvd142m"
    nearest, linear = results.with_registers if registers else results.without_registers
    accuracies = publisher.report_results("README.md", IMAGENET, k_NN=nearest, linear=linear)
    if not registers:
        accuracies += publisher.report_results("MODEL_CARD.md", NYU, depth=results.depth)
    return ModelInfo(
        name=name,
        family="dinov2",
        aliases=(in_timm,),
        config=config,
        published=(
            *published_namings(config, meta_names.DINOV2_VIT, equimo_names.VIT),
            PublishedNaming(huggingface_names.DINOV2_VIT, config, options=("mask token",)),
            PublishedNaming(timm_names.VIT, in_tokens if registers else config),
        ),
        preprocessing=shared.imagenet(resize=256, resample="bicubic"),
        publisher=publisher,
        checkpoint=f"{base_name}{suffix}_pretrain.pth",
        archive=f"{name}.tar.lz4",
        **publisher.hub_fields(size),
        mirrors=(*shared.equimo_files(name), shared.safetensors(in_timm)),
        parameters=parameters + registers * config.dim,
        pooler=shared.CLASS_TOKEN,
        labels=shared.IMAGENET,
        reported=accuracies,
    )


DINOV2_MODELS = tuple(_dinov2(*row, registers) for registers in (0, 4) for row in DINOV2_VARIANTS)


# ViT-5 (Wang et al., 2026, arXiv:2602.08071), a classifier of ImageNet-1k: a vision transformer
# with components of language models.
#
# It has learned and rotary positions, registers that are rotated like a small picture, RMSNorm, and
# normalised queries and keys without biases. Equimo's network differs in detail from the original,
# for which weights are published: the original has the exact GELU, norms without a bias, and a
# classifier of the class token. The original has the registers after the patches, which does not
# change the result. Pairs of channels are neighbours, as in the original and in Equimo 2.7. In
# Equimo 1.1.0 they are a half apart.
#
# Source: `models_vit5.py` and `rope.py` of wangf3014/ViT-5.

VIT5_SOURCE = "wangf3014/ViT-5"
VIT5 = Publisher(
    source=VIT5_SOURCE, licence=shared.apache(VIT5_SOURCE, VIT5_SOURCE), papers=("2602.08071",)
)

# size, dimensions, parameters, and accuracy on ImageNet-1k, if `README.md` has one
VIT5_VARIANTS = (
    ("small", shared.SMALL, 22_050_280, None),
    ("base", shared.BASE, 86_563_816, 84.2),
    ("large", shared.LARGE, 304_311_272, None),
    ("xlarge", (1152, 28, 16, 4608), 448_574_824, None),
)


def _vit5(
    size: str, dimensions: shared.Dimensions, parameters: int, accuracy: float | None
) -> ModelInfo:
    """Return the registry's row of one ViT-5. `accuracy` is the accuracy on ImageNet-1k in percent;
    None if it is not known."""
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
    original = replace(config, activation="gelu", norm_bias=False, pool="token")
    return ModelInfo(
        name=name,
        family="vit5",
        config=config,
        published=(
            PublishedNaming(original_names.VIT5, original),
            PublishedNaming(equimo_names.VIT, config),
        ),
        preprocessing=shared.imagenet(resize=224, resample="bicubic"),
        publisher=VIT5,
        checkpoint=f"{name}_patch16_224.pth",
        archive=f"{name}.tar.lz4",
        parameters=parameters,
        pooler="the mean of the patches; for the original's weights the class token",
        labels=shared.IMAGENET,
        reported=VIT5.report_results("README.md", IMAGENET, classifier=accuracy),
    )


VIT5_MODELS = tuple(_vit5(*row) for row in VIT5_VARIANTS)
