"""DINOv2 vision transformers (Oquab et al., 2023, arXiv:2304.07193), with registers and without
(Darcet et al., 2023, arXiv:2309.16588).

Both were trained at 518 x 518 in the end; transformers' image processor gives 224 x 224, which is
the default here. How positions come to another size is the hub's own setting, `hubconf.py` and
`dinov2/hub/backbones.py` of facebookresearch/dinov2: an offset of 0.1 and no antialiasing without
registers, no offset and antialiasing with them.
"""

from dataclasses import replace
from typing import NamedTuple

from weights.namings import equimo_names, huggingface_names, meta_names, timm_names
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.reported import IMAGENET, NYU, reported

SOURCE = "facebookresearch/dinov2"
CARD = f"MODEL_CARD.md of {SOURCE}"

PLAIN_POSITIONS = LearnedPositions(grid=37, offset=0.1)
WITH_REGISTERS = LearnedPositions(grid=37, antialias=True)


class Results(NamedTuple):
    """Accuracies on ImageNet-1k by the nearest neighbours and by a linear layer, without registers
    and with them (`README.md`); without them also on NYU Depth v2 by a linear layer on four blocks,
    and on ADE20k at several scales (`MODEL_CARD.md`)."""

    plain: tuple[float, float]
    with_registers: tuple[float, float]
    depth: float
    areas: float


# letter, size in transformers' and timm's names, dimensions, parameters without registers, results
VARIANTS = (
    ("s", "small", shared.SMALL, 22_056_576, Results((79.0, 81.1), (79.1, 80.9), 0.417, 47.2)),
    ("b", "base", shared.BASE, 86_580_480, Results((82.1, 84.5), (82.0, 84.6), 0.362, 51.3)),
    ("l", "large", shared.LARGE, 304_368_640, Results((83.5, 86.3), (83.8, 86.7), 0.333, 53.1)),
    ("g", "giant", shared.GIANT, 1_136_480_768, Results((83.5, 86.5), (83.7, 87.1), 0.298, 53.0)),
)


def _model(
    letter: str,
    size: str,
    dimensions: shared.Dimensions,
    parameters: int,
    results: Results,
    registers: int,
) -> ModelInfo:
    config = shared.patches_of_14(
        *dimensions,
        ffn="swiglu_fused" if letter == "g" else "mlp",
        registers=registers,
        positions=WITH_REGISTERS if registers else PLAIN_POSITIONS,
    )
    # timm adds the class token's position to the token itself where there are registers.
    in_tokens = replace(config, positions=replace(WITH_REGISTERS, cls_token=False))
    plain, in_names = f"dinov2_vit{letter}14", "_reg4" if registers else ""
    name = f"{plain}_reg" if registers else plain
    repository = f"facebook/dinov2-{'with-registers-' if registers else ''}{size}"
    in_timm = f"timm/vit_{size}_patch14{in_names}_dinov2.lvd142m"
    near, linear = results.with_registers if registers else results.plain
    accuracies = reported(f"README.md of {SOURCE}", IMAGENET, k_NN=near, linear=linear)
    if not registers:
        accuracies += reported(CARD, NYU, depth=results.depth)
    return ModelInfo(
        name=name,
        family="dinov2",
        aliases=(in_timm,),
        config=config,
        namings=(
            meta_names.DINOV2_VIT,
            equimo_names.VIT,
            huggingface_names.DINOV2_VIT,
            timm_names.VIT,
        ),
        options={"huggingface": ("mask token",)},
        preprocessing=shared.imagenet(resize=256, resample="bicubic"),
        licence=shared.apache(SOURCE, f"{SOURCE}#pretrained-models"),
        checkpoint=f"{plain}{in_names}_pretrain.pth",
        archive=f"{name}.tar.lz4",
        repository=repository,
        hub=(shared.safetensors(repository),),
        mirrors=(*shared.equimo_files(name), shared.safetensors(in_timm)),
        parameters=parameters + registers * config.dim,
        source=SOURCE,
        papers=("2304.07193", "2309.16588") if registers else ("2304.07193",),
        pooler=shared.CLASS_TOKEN,
        labels=shared.IMAGENET,
        published={"timm": in_tokens} if registers else {},
        reported=accuracies,
    )


MODELS = tuple(_model(*row, registers) for registers in (0, 4) for row in VARIANTS)
