"""DEIMv2 (Huang et al., 2025, arXiv:2509.20787): a detection transformer on DINOv3.

`l` and `x` stand on DINOv3's own networks, `s` and `m` on small ones that were distilled from it.
They are read from folders of transformers, which its conversion script makes of the authors' files;
nothing is downloaded. The authors' smaller networks stand on no vision transformer.

Sources: `README.md` and `hf_models.ipynb` of Intellindust-AI-Lab/DEIMv2, and
`convert_deimv2_original_pytorch_checkpoint_to_hf.py` of transformers.
"""

from typing import NamedTuple

from weights.namings import deim_names
from zoo.architectures.deim.deim_config import DeimConfig, FinderConfig, PyramidConfig
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import shared
from zoo.architectures.reported import reported
from zoo.architectures.vit.vit_config import ViTConfig

SOURCE = "Intellindust-AI-Lab/DEIMv2"


class DeimVariant(NamedTuple):
    """A published network: its backbone and the blocks of that which are read; channels of the
    adapter and of maps, of their transformer block and of a branch, bottlenecks; blocks of the
    queries and their channels; parameters, and AP."""

    size: str
    backbone: ViTConfig
    layers: tuple[int, int, int]
    planes: int
    width: int
    hidden: int
    narrow: int
    bottlenecks: int
    depth: int
    gated: int
    parameters: int
    precision: float


def _distilled(dim: int, heads: int) -> ViTConfig:
    """A network that was distilled from DINOv3, without registers."""
    return ViTConfig(dim, 12, heads, 4 * dim, registers=0, layer_scale=1.0, pool=None)


VITS16 = ViTConfig(*shared.SMALL, pool=None)
VITS16PLUS = ViTConfig(*shared.SMALL, ffn="swiglu", pool=None)
EVEN, LATE = (4, 8, 12), (6, 9, 12)

VARIANTS = (
    DeimVariant("s", _distilled(192, 3), EVEN, 16, 192, 512, 32, 2, 4, 256, 9_833_950, 50.9),
    DeimVariant("m", _distilled(256, 4), EVEN, 16, 256, 512, 85, 3, 4, 256, 18_452_950, 53.0),
    DeimVariant("l", VITS16, LATE, 32, 224, 896, 112, 3, 4, 896, 32_626_510, 56.0),
    DeimVariant("x", VITS16PLUS, LATE, 64, 256, 1024, 160, 4, 6, 1024, 51_315_800, 57.8),
)

COCO = shared.class_names("coco")[:80]


def _model(variant: DeimVariant) -> ModelInfo:
    pyramid = PyramidConfig(
        1, heads=8, hidden=variant.hidden, narrow=variant.narrow, bottlenecks=variant.bottlenecks
    )
    return ModelInfo(
        name=f"deimv2_{variant.size}",
        family="deimv2",
        config=DeimConfig(
            variant.backbone,
            variant.width,
            variant.planes,
            variant.layers,
            pyramid,
            FinderConfig(variant.depth, heads=8, hidden=variant.gated),
            queries=300,
            classes=len(COCO),
            normed=variant.backbone.registers > 0,
        ),
        namings=(deim_names.DEIM,),
        preprocessing=shared.imagenet(size=(640, 640)),
        licence=shared.apache(SOURCE, SOURCE),
        repository=f"Intellindust/DEIMv2_DINOv3_{variant.size.upper()}_COCO",
        parameters=variant.parameters,
        source=SOURCE,
        papers=("2509.20787",),
        labels=COCO,
        reported=reported(f"README.md of {SOURCE}", "COCO", boxes=variant.precision),
    )


MODELS = tuple(map(_model, VARIANTS))
