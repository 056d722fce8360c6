"""TIPS vision transformers (Maninis et al., 2024, arXiv:2410.16512): DINOv2's network with two
class tokens, the second of which takes a register's place.

Source: `pytorch/image_encoder.py` and `run_image_encoder_inference.py` of google-deepmind/tips.
"""

from weights.namings import equimo_names, meta_names
from zoo.models.position_config import LearnedPositions
from zoo.models.preprocessing import Preprocessing
from zoo.registry.entry import Licence, ModelInfo
from zoo.registry.families import shared

LICENCE = Licence(
    name="Creative Commons Attribution 4.0 International",
    text="cc-by-4.0.txt",
    page="https://github.com/google-deepmind/tips#license-and-disclaimer",
    download="https://github.com/google-deepmind/tips#checkpoints",
)

# name, part of the file name, dimensions, pixels, parameters
VARIANTS = (
    ("s14_hr", "s14_highres_distilled", shared.SMALL, 448, 21_924_480),
    ("b14_hr", "b14_highres_distilled", shared.BASE, 448, 86_316_288),
    ("l14_hr", "l14_highres_distilled", shared.LARGE, 448, 304_016_384),
    ("so400m14_hr", "so400m14_highres_largetext_distilled", shared.SO400M, 448, 413_393_904),
    ("g14_lr", "g14_lowres", shared.GIANT, 224, 1_134_772_736),
    ("g14_hr", "g14_highres", shared.GIANT, 448, 1_135_952_384),
)


def _model(
    short: str, published: str, dimensions: shared.Dimensions, pixels: int, parameters: int
) -> ModelInfo:
    name = f"tips_vit{short}"
    config = shared.patches_of_14(
        *dimensions,
        ffn="swiglu_fused" if short.startswith("g") else "mlp",
        registers=1,
        positions=LearnedPositions(grid=pixels // 14, antialias=True),
    )
    return ModelInfo(
        name=name,
        family="tips",
        aliases=(f"tips_oss_{published}",),
        config=config,
        namings=(meta_names.TIPS_VIT, equimo_names.VIT),
        preprocessing=Preprocessing(mean=(0.0,) * 3, std=(1.0,) * 3, size=(pixels, pixels)),
        licence=LICENCE,
        checkpoint=f"tips_oss_{published}_vision.npz",
        archive=f"{name}.tar.lz4",
        mirrors=shared.equimo_files(name),
        parameters=parameters,
        source="google-deepmind/tips",
        pooler="the first class token; the second is the next row of last_hidden_state",
    )


MODELS = tuple(_model(*row) for row in VARIANTS)
