"""Checkpoints of ConvNeXt, by everybody who publishes them: DINOv3's and EUPE's.

The networks are the same everywhere and so is the order of their layers; a naming is therefore a
list of names for the same ten layers. `{s}` counts stages, `{i}` blocks of one stage.

Sources: `dinov3/models/convnext.py` of facebookresearch/dinov3, `equimo/models/convnext.py`
(1.1.0), `modeling_dinov3_convnext.py` of transformers (5.23), `timm/models/convnext.py` (1.0.31).
"""

from __future__ import annotations

from dataclasses import dataclass

from weights.mapping import Naming, Rule
from weights.transforms import PER_CHANNEL, POINTWISE, SAME, Transform


@dataclass(frozen=True)
class Layers:
    """What each layer is called; between stages stand `down_norm` and `down_conv`."""

    stem_conv: str
    stem_norm: str
    down_norm: str
    down_conv: str
    dwconv: str
    norm: str
    pwconv1: str
    pwconv2: str
    gamma: str
    last_norm: str


def rules(
    layers: Layers, bias: Transform = PER_CHANNEL, pointwise: Transform = SAME
) -> tuple[Rule, ...]:
    """A table from names. `bias` are the convolutions', `pointwise` the linear layers' tensors."""
    block = "blocks.{s}.blocks.{i}."
    # The stem comes first: the rules for what stands between stages would match it too.
    convolutions = (
        ("blocks.0.downsample.conv.", layers.stem_conv),
        ("blocks.{s}.downsample.conv.", layers.down_conv),
        (block + "dwconv.", layers.dwconv),
    )
    norms = (
        ("blocks.0.downsample.norm.", layers.stem_norm),
        ("blocks.{s}.downsample.norm.", layers.down_norm),
        (block + "norm.", layers.norm),
        ("norm.", layers.last_norm),
    )
    linear = ((block + "pwconv1.", layers.pwconv1), (block + "pwconv2.", layers.pwconv2))
    return (
        *(Rule(leaf + "weight", (name + ".weight",)) for leaf, name in convolutions),
        *(Rule(leaf + "bias", (name + ".bias",), bias) for leaf, name in convolutions),
        *(Rule(leaf + "{p}", (name + ".{p}",)) for leaf, name in norms),
        *(Rule(leaf + "{p}", (name + ".{p}",), pointwise) for leaf, name in linear),
        Rule(block + "ls.gamma", (layers.gamma,)),
    )


META = Naming(
    "meta",
    rules(
        Layers(
            stem_conv="downsample_layers.0.0",
            stem_norm="downsample_layers.0.1",
            down_norm="downsample_layers.{s}.0",
            down_conv="downsample_layers.{s}.1",
            dwconv="stages.{s}.{i}.dwconv",
            norm="stages.{s}.{i}.norm",
            pwconv1="stages.{s}.{i}.pwconv1",
            pwconv2="stages.{s}.{i}.pwconv2",
            gamma="stages.{s}.{i}.gamma",
            last_norm="norm",
        )
    ),
    # The original registers its final norm a second time, as that of the last stage.
    copies=(("norms.3.weight", "norm.weight"), ("norms.3.bias", "norm.bias")),
)

EQUIMO = Naming(
    "equimo",
    rules(
        Layers(
            stem_conv="blocks.0.downsample.conv",
            stem_norm="blocks.0.downsample.norm",
            down_norm="blocks.{s}.downsample.norm",
            down_conv="blocks.{s}.downsample.conv",
            dwconv="blocks.{s}.blocks.{i}.dwconv",
            norm="blocks.{s}.blocks.{i}.norm",
            pwconv1="blocks.{s}.blocks.{i}.pwconv1",
            pwconv2="blocks.{s}.blocks.{i}.pwconv2",
            gamma="blocks.{s}.blocks.{i}.ls.gamma",
            last_norm="norm",
        ),
        bias=SAME,
        pointwise=POINTWISE,
    ),
)

# Files hold `stages.0.…`; the model in memory calls that `model.stages.0.…`.
HUGGINGFACE = Naming(
    "huggingface",
    rules(
        Layers(
            stem_conv="stages.0.downsample_layers.0",
            stem_norm="stages.0.downsample_layers.1",
            down_norm="stages.{s}.downsample_layers.0",
            down_conv="stages.{s}.downsample_layers.1",
            dwconv="stages.{s}.layers.{i}.depthwise_conv",
            norm="stages.{s}.layers.{i}.layer_norm",
            pwconv1="stages.{s}.layers.{i}.pointwise_conv1",
            pwconv2="stages.{s}.layers.{i}.pointwise_conv2",
            gamma="stages.{s}.layers.{i}.gamma",
            last_norm="layer_norm",
        )
    ),
    prefixes=(("model.stages.", "stages."),),
)

TIMM = Naming(
    "timm",
    rules(
        Layers(
            stem_conv="stem.0",
            stem_norm="stem.1",
            down_norm="stages.{s}.downsample.0",
            down_conv="stages.{s}.downsample.1",
            dwconv="stages.{s}.blocks.{i}.conv_dw",
            norm="stages.{s}.blocks.{i}.norm",
            pwconv1="stages.{s}.blocks.{i}.mlp.fc1",
            pwconv2="stages.{s}.blocks.{i}.mlp.fc2",
            gamma="stages.{s}.blocks.{i}.gamma",
            last_norm="head.norm",
        )
    ),
)

NAMINGS = (META, EQUIMO, HUGGINGFACE, TIMM)
