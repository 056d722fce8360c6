"""DINOv2 vision transformers (Oquab et al., 2023, arXiv:2304.07193), with registers and without
(Darcet et al., 2023, arXiv:2309.16588).

Both were trained at 518 x 518 in the end; transformers' image processor gives 224 x 224, which is
the default here. How positions come to another size is the hub's own setting, `hubconf.py` and
`dinov2/hub/backbones.py` of facebookresearch/dinov2: an offset of 0.1 and no antialiasing without
registers, no offset and antialiasing with them.
"""

from dataclasses import replace

from weights.namings import equimo, huggingface, meta, timm
from weights.sources.hub import HubFile
from zoo.models.config import LearnedPositions, Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.equimo_archives import equimo_file
from zoo.registry.families.statistics import IMAGENET_MEAN, IMAGENET_STD

LICENCE = Licence(
    name="Apache License 2.0",
    text="apache-2.0.txt",
    page="https://github.com/facebookresearch/dinov2/blob/main/LICENSE",
    download="https://github.com/facebookresearch/dinov2#pretrained-models",
)

PREPROCESSING = Preprocessing(
    mean=IMAGENET_MEAN, std=IMAGENET_STD, size=(224, 224), resize=256, resample="bicubic"
)

PLAIN = LearnedPositions(grid=37, offset=0.1)
WITH_REGISTERS = LearnedPositions(grid=37, antialias=True)


def _config(dim: int, depth: int, heads: int, registers: int) -> ViTConfig:
    return ViTConfig(
        dim=dim,
        depth=depth,
        heads=heads,
        hidden=4 * dim,
        norm_eps=1e-6,
        patch_size=14,
        registers=registers,
        positions=WITH_REGISTERS if registers else PLAIN,
        rope=None,
    )


def _giant(registers: int) -> ViTConfig:
    return replace(_config(1536, 40, 24, registers), ffn="swiglu_fused", hidden=4096)


# letter, size in transformers' and timm's names, configuration, parameters
VARIANTS = (
    ("s", "small", _config(384, 12, 6, 0), 22_056_576),
    ("b", "base", _config(768, 12, 12, 0), 86_580_480),
    ("l", "large", _config(1024, 24, 16, 0), 304_368_640),
    ("g", "giant", _giant(0), 1_136_480_768),
    ("s", "small", _config(384, 12, 6, 4), 22_058_112),
    ("b", "base", _config(768, 12, 12, 4), 86_583_552),
    ("l", "large", _config(1024, 24, 16, 4), 304_372_736),
    ("g", "giant", _giant(4), 1_136_486_912),
)

NAMINGS = (meta.DINOV2_VIT, equimo.VIT, huggingface.DINOV2_VIT, timm.VIT)


def _published(config: ViTConfig) -> dict[str, ViTConfig]:
    """timm adds the class token's position to the token itself where there are registers."""
    if not config.registers or config.positions is None:
        return {}
    return {"timm": replace(config, positions=replace(config.positions, cls_token=False))}


def _model(letter: str, size: str, config: ViTConfig, parameters: int) -> ModelInfo:
    plain = f"dinov2_vit{letter}14"
    name = f"{plain}_reg" if config.registers else plain
    repository = f"facebook/dinov2-{'with-registers-' if config.registers else ''}{size}"
    registers = "_reg4" if config.registers else ""
    in_timm = f"timm/vit_{size}_patch14{registers}_dinov2.lvd142m"
    return ModelInfo(
        name=name,
        family="dinov2",
        aliases=(in_timm,),
        config=config,
        namings=NAMINGS,
        preprocessing=PREPROCESSING,
        licence=LICENCE,
        checkpoint=f"{plain}{registers}_pretrain.pth",
        digest="",
        archive=f"{name}.tar.lz4",
        repository=repository,
        hub=(
            equimo_file(name),
            HubFile(repository, "model.safetensors"),
            HubFile(in_timm, "model.safetensors"),
        ),
        parameters=parameters,
        source="facebookresearch/dinov2",
        pooler="the class token",
        published=_published(config),
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
