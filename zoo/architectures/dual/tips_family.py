"""Published models of TIPS and TIPSv2 (Maninis et al., 2024, arXiv:2410.16512; Cao et al., 2026):
vision transformers, transformers for texts, and dual encoders of both, for classes that are
described in words.

The network for pictures is DINOv2's with two class tokens, the second of which is stored as a
register, and with positions that are interpolated linearly. Equimo interpolates them by cubic
convolution. The network for texts has sinusoidal positions and masks padding; the vector of a text
is the mean of its words. TIPSv2 has the networks of TIPS with another training.

Sources: `pytorch/image_encoder.py`, `text_encoder.py`, `run_text_encoder_inference.py` and
`README.md` of google-deepmind/tips; `Tipsv2Model` of transformers 5.24.
"""

from dataclasses import replace
from typing import Any, NamedTuple

from weights.namings import equimo_names, tower_names
from zoo.architectures.dual.dual_config import DualConfig, TextConfig
from zoo.architectures.entry import (
    IMAGENET,
    NYU,
    HubFields,
    Licence,
    ModelInfo,
    PublishedNaming,
    Publisher,
    published_namings,
)
from zoo.architectures.families import shared
from zoo.architectures.parts.layer_options import LearnedPositions
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.images.preprocessing import Preprocessing

SOURCE = "google-deepmind/tips"
DEEPMIND = Publisher(
    source=SOURCE,
    licence=Licence(
        name="Creative Commons Attribution 4.0 International",
        text="cc-by-4.0.txt",
        page=f"https://github.com/{SOURCE}#license-and-disclaimer",
        download=f"https://github.com/{SOURCE}#checkpoints",
    ),
    papers=("2410.16512",),
    repository="google/tipsv2-{}",
)


class TowerSizes(NamedTuple):
    """Sizes of both networks: their dimensions, and parameters of the network for texts."""

    vision: shared.Dimensions
    words: shared.Dimensions
    parameters: int


# Networks for texts have twelve blocks, except in one size, and no gates.
SIZES = {
    "s": TowerSizes(shared.SMALL, shared.SMALL, 33_582_336),
    "b": TowerSizes(shared.BASE, shared.BASE, 109_632_000),
    "l": TowerSizes(shared.LARGE, (1024, 12, 16, 4096), 183_924_736),
    "so400m": TowerSizes(shared.SO400M, shared.SO400M, 448_332_912),
    "g": TowerSizes(shared.GIANT, (1536, 12, 24, 6144), 389_133_312),
}

# Only the authors publish the networks for texts.
NO_OTHER_FILES: dict[str, Any] = dict(aliases=(), archive="", mirrors=())

# name, size, name of the files, pixels, parameters; results on ImageNet-1k by nearest neighbours
# and on NYU Depth v2 (`README.md`)
VARIANTS = (
    ("tips_vits14_hr", "s", "tips_oss_s14_highres_distilled", 448, 21_924_480, 75.1, 0.425),
    ("tips_vitb14_hr", "b", "tips_oss_b14_highres_distilled", 448, 86_316_288, 80.0, 0.379),
    ("tips_vitl14_hr", "l", "tips_oss_l14_highres_distilled", 448, 304_016_384, 82.5, 0.372),
    (
        *("tips_vitso400m14_hr", "so400m", "tips_oss_so400m14_highres_largetext_distilled"),
        *(448, 413_393_904, 83.0, 0.362),
    ),
    ("tips_vitg14_lr", "g", "tips_oss_g14_lowres", 224, 1_134_772_736, 83.6, 0.39),
    ("tips_vitg14_hr", "g", "tips_oss_g14_highres", 448, 1_135_952_384, 83.2, 0.363),
    ("tipsv2_vitb14", "b", "tips_v2_oss_b14", 448, 86_316_288, 79.8, 0.374),
    ("tipsv2_vitl14", "l", "tips_v2_oss_l14", 448, 304_016_384, 82.5, 0.339),
    ("tipsv2_vitso400m14", "so400m", "tips_v2_oss_so14", 448, 413_393_904, 82.8, 0.339),
    ("tipsv2_vitg14", "g", "tips_v2_oss_g14", 448, 1_135_952_384, 83.7, 0.334),
)


def _vision(
    name: str,
    size: str,
    published: str,
    pixels: int,
    parameters: int,
    nearest: float,
    depth: float,
) -> ModelInfo:
    """Return the registry's row of one TIPS network for pictures.

    **Arguments:**

    - `name`: the name of the model.
    - `size`: a key of `SIZES`.
    - `published`: the authors' name, with which the names of their files begin.
    - `pixels`: the side of a picture.
    - `parameters`: the number of parameters.
    - `nearest`, `depth`: the results on ImageNet-1k by nearest neighbours in percent, and on NYU
      Depth v2 in metres.
    """
    is_second = name.startswith("tipsv2")
    linear = LearnedPositions(grid=pixels // 14, antialias=True, linear=True)
    config = shared.patches_of_14(
        *SIZES[size].vision,
        ffn="swiglu_fused" if size == "g" else "mlp",
        registers=1,
        positions=linear,
    )
    in_equimo = PublishedNaming(
        equimo_names.VIT, replace(config, positions=replace(linear, linear=False))
    )
    hub = (tower_names.HUB_TIPS_VIT,) if is_second else ()
    return ModelInfo(
        name=name,
        family="tipsv2" if is_second else "tips",
        aliases=(published,),
        config=config,
        published=(
            *published_namings(config, *hub, tower_names.TIPS_VIT),
            *(() if is_second else (in_equimo,)),
        ),
        preprocessing=Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, size=(pixels, pixels)),
        publisher=DEEPMIND,
        checkpoint=f"{published}_vision.npz",
        archive="" if is_second else f"{name}.tar.lz4",
        **(DEEPMIND.hub_fields(f"{size}14") if is_second else HubFields()),
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        pooler="the first class token; the second is the next row of last_hidden_state",
        reported=(
            *DEEPMIND.report_results("README.md", IMAGENET, k_NN=nearest),
            *DEEPMIND.report_results("README.md", NYU, depth=depth),
        ),
    )


def _text(size: str, vision: ModelInfo) -> ModelInfo:
    """Return the registry's row of the network for texts that was trained together with the network
    for pictures `vision`. `size` is a key of `SIZES`."""
    hub = (tower_names.HUB_TIPS_TEXT,) if vision.repository else ()
    config = TextConfig(
        *SIZES[size].words,
        projection=None,
        vocabulary=32_000,
        activation="relu",
        norm_eps=1e-5,
        positions="sinusoidal",
        masked=True,
        pool="mean",
    )
    return replace(
        vision,
        name=f"{vision.name}_text",
        family=f"{vision.family}_text",
        config=config,
        published=published_namings(config, *hub, tower_names.TIPS_TEXT),
        checkpoint=vision.checkpoint.replace("_vision", "_text"),
        parameters=SIZES[size].parameters,
        pooler="the mean of the words",
        reported=(),
        **NO_OTHER_FILES,
    )


def _dual(vision: ModelInfo, text: ModelInfo) -> ModelInfo:
    """Return the registry's row of the dual encoder of a network for pictures (`vision`) and one
    for texts (`text`). It also has the temperature of its logits."""
    assert isinstance(vision.config, ViTConfig) and isinstance(text.config, TextConfig)
    hub = (tower_names.HUB_TIPS_DUAL,) if vision.repository else ()
    config = DualConfig(vision.config, text.config, bias=False, temperature=True)
    return replace(
        text,
        name=f"{vision.name}_dual",
        family=f"{vision.family}_dual",
        config=config,
        published=published_namings(config, *hub, tower_names.TIPS_DUAL),
        # The file on the hub has no temperature, which is in the settings file.
        hub=(),
        parameters=vision.parameters + text.parameters + 1,
        pooler="",
    )


_VISION = tuple(_vision(*row) for row in VARIANTS)
_TEXT = tuple(_text(size, vision) for (_, size, *_), vision in zip(VARIANTS, _VISION, strict=True))
MODELS = (*_VISION, *_TEXT, *map(_dual, _VISION, _TEXT))
