"""TIPS vision transformers (Maninis et al., 2024, arXiv:2410.16512): DINOv2's network with two
class tokens, the second of which takes a register's place.

Source: `pytorch/image_encoder.py` and `run_image_encoder_inference.py` of google-deepmind/tips.
"""

from dataclasses import replace

from weights.namings import equimo, google
from zoo.models.config import LearnedPositions, Preprocessing, ViTConfig
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families.equimo_archives import equimo_file

LICENCE = Licence(
    name="Creative Commons Attribution 4.0 International",
    text="cc-by-4.0.txt",
    page="https://github.com/google-deepmind/tips#license-and-disclaimer",
    download="https://github.com/google-deepmind/tips#checkpoints",
)


def _config(dim: int, depth: int, heads: int, hidden: int, size: int = 448) -> ViTConfig:
    return ViTConfig(
        dim=dim,
        depth=depth,
        heads=heads,
        hidden=hidden,
        norm_eps=1e-6,
        patch_size=14,
        registers=1,
        positions=LearnedPositions(grid=size // 14, antialias=True),
        rope=None,
    )


def _giant(size: int) -> ViTConfig:
    return replace(_config(1536, 40, 24, 4096, size), ffn="swiglu_fused")


# name, part of the file name, configuration, parameters
VARIANTS = (
    ("tips_vits14_hr", "s14_highres_distilled", _config(384, 12, 6, 1536), 21_924_480),
    ("tips_vitb14_hr", "b14_highres_distilled", _config(768, 12, 12, 3072), 86_316_288),
    ("tips_vitl14_hr", "l14_highres_distilled", _config(1024, 24, 16, 4096), 304_016_384),
    (
        "tips_vitso400m14_hr",
        "so400m14_highres_largetext_distilled",
        _config(1152, 27, 16, 4304),
        413_393_904,
    ),
    ("tips_vitg14_lr", "g14_lowres", _giant(224), 1_134_772_736),
    ("tips_vitg14_hr", "g14_highres", _giant(448), 1_135_952_384),
)

NAMINGS = (google.TIPS_VIT, equimo.VIT)


def _model(name: str, published: str, config: ViTConfig, parameters: int) -> ModelInfo:
    assert config.positions is not None
    side = config.positions.grid * config.patch_size
    return ModelInfo(
        name=name,
        family="tips",
        aliases=(f"tips_oss_{published}",),
        config=config,
        namings=NAMINGS,
        preprocessing=Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, size=(side, side)),
        licence=LICENCE,
        checkpoint=f"tips_oss_{published}_vision.npz",
        digest="",
        archive=f"{name}.tar.lz4",
        repository="",
        hub=(equimo_file(name),),
        parameters=parameters,
        source="google-deepmind/tips",
        pooler="the first class token; the second is the next row of last_hidden_state",
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
