"""Names of ConvNeXt's tensors by all publishers: the classifiers of both versions, DINOv3's and
EUPE's.

The networks and the order of their layers are the same everywhere, so a naming is a list of names
for the same ten layers. `{s}` is the index of a stage, `{i}` that of a block in its stage.

Sources: `dinov3/models/convnext.py` of facebookresearch/dinov3, `models/convnext.py` and
`models/convnextv2.py` of facebookresearch/ConvNeXt and /ConvNeXt-V2, `equimo/models/convnext.py`
(1.1.0), `modeling_dinov3_convnext.py`, `modeling_convnext.py` and `modeling_convnextv2.py` of
transformers (5.23), `timm/models/convnext.py` (1.0.31).
"""

from functools import partial

from weights.mapping import Naming, Rule
from weights.namings import conventions
from weights.transforms import PER_CHANNEL, POINTWISE, SAME, UNMAP, Transform

STAGE = "blocks.{s}.downsample."
BLOCK = "blocks.{s}.blocks.{i}."


def convnext_rules(
    stem: tuple[str, str],
    down: tuple[str, str],
    block: str,
    layers: tuple[str, str, str, str, str],
    last_norm: str = "norm",
    head: str = "head",
    grn: tuple[str, str, Transform] = ("grn.weight", "grn.bias", UNMAP),
    bias: Transform = PER_CHANNEL,
    pointwise: tuple[Transform, Transform] = (SAME, SAME),
) -> tuple[Rule, ...]:
    """Return the rules that map a ConvNeXt's tensors, named as one library names them, to leaves of
    the model.

    **Arguments:**

    - `stem`: the names of the stem's convolution and norm.
    - `down`: the names of the convolution and norm between two stages.
    - `block`: the prefix of a block's names.
    - `layers`: the names, in a block, of the depthwise convolution, the norm, the two linear
      layers, and the scale.
    - `last_norm`: the name of the norm after the last stage.
    - `head`: the name of the classifier.
    - `grn`: the names of the weight and bias of a block's response norm, and their transform.
    - `bias`: the transform of the biases of convolutions.
    - `pointwise`: the transforms of the weights and of the biases of the linear layers.
    """
    dwconv, norm, pwconv1, pwconv2, gamma = (block + layer for layer in layers)
    # The stem comes first, because the rules for the layers between two stages match it too.
    convolutions = ("blocks.0.downsample.conv.", STAGE + "conv.", BLOCK + "dwconv.")
    norms = ("blocks.0.downsample.norm.", STAGE + "norm.", BLOCK + "norm.", "norm.")
    convolution_names = tuple(zip(convolutions, (stem[0], down[0], dwconv), strict=True))
    norm_names = zip(norms, (stem[1], down[1], norm, last_norm), strict=True)
    linear_names = ((BLOCK + "pwconv1.", pwconv1), (BLOCK + "pwconv2.", pwconv2))
    return (
        *(Rule(leaf + "weight", (name + ".weight",)) for leaf, name in convolution_names),
        *(Rule(leaf + "bias", (name + ".bias",), bias) for leaf, name in convolution_names),
        *(Rule(leaf + "{p}", (name + ".{p}",)) for leaf, name in norm_names),
        *(Rule(leaf + "weight", (name + ".weight",), pointwise[0]) for leaf, name in linear_names),
        *(Rule(leaf + "bias", (name + ".bias",), pointwise[1]) for leaf, name in linear_names),
        Rule(BLOCK + "ls.gamma", (gamma,)),
        Rule(BLOCK + "grn.weight", (block + grn[0],), grn[2]),
        Rule(BLOCK + "grn.bias", (block + grn[1],), grn[2]),
        Rule("head.{p}", (head + ".{p}",)),
    )


META = Naming(
    conventions.META,
    convnext_rules(
        stem=("downsample_layers.0.0", "downsample_layers.0.1"),
        down=("downsample_layers.{s}.1", "downsample_layers.{s}.0"),
        block="stages.{s}.{i}.",
        layers=("dwconv", "norm", "pwconv1", "pwconv2", "gamma"),
        grn=("grn.gamma", "grn.beta", UNMAP),
    ),
    # The original model registers its final norm also as the norm of the last stage.
    copies=(("norms.3.weight", "norm.weight"), ("norms.3.bias", "norm.bias")),
)

EQUIMO = Naming(
    conventions.EQUIMO,
    convnext_rules(
        stem=("blocks.0.downsample.conv", "blocks.0.downsample.norm"),
        down=(STAGE + "conv", STAGE + "norm"),
        block=BLOCK,
        layers=("dwconv", "norm", "pwconv1", "pwconv2", "ls.gamma"),
        grn=("grn.weight", "grn.bias", SAME),
        bias=SAME,
        pointwise=(POINTWISE, POINTWISE),
    ),
)


def _transformers_rules(stages: str) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of transformers' DINOv3 ConvNeXt to leaves of the
    model. `stages` is the prefix of the names of stages."""
    return convnext_rules(
        stem=(f"{stages}0.downsample_layers.0", f"{stages}0.downsample_layers.1"),
        down=(f"{stages}{{s}}.downsample_layers.1", f"{stages}{{s}}.downsample_layers.0"),
        block=f"{stages}{{s}}.layers.{{i}}.",
        layers=("depthwise_conv", "layer_norm", "pointwise_conv1", "pointwise_conv2", "gamma"),
        last_norm="layer_norm",
    )


HUGGINGFACE = Naming(
    conventions.HUGGINGFACE,
    _transformers_rules("stages."),
    in_memory=Naming(conventions.HUGGINGFACE, _transformers_rules("model.stages.")),
)

CLASSIFIER = Naming(
    conventions.HUGGINGFACE,
    convnext_rules(
        stem=("embeddings.patch_embeddings", "embeddings.layernorm"),
        down=(
            "encoder.stages.{s}.downsampling_layer.1",
            "encoder.stages.{s}.downsampling_layer.0",
        ),
        block="encoder.stages.{s}.layers.{i}.",
        layers=("dwconv", "layernorm", "pwconv1", "pwconv2", "layer_scale_parameter"),
        last_norm="layernorm",
        head="classifier",
    ),
    wrappers=("convnext", "convnextv2"),
)

_timm_rules = partial(
    convnext_rules,
    stem=("stem.0", "stem.1"),
    down=("stages.{s}.downsample.1", "stages.{s}.downsample.0"),
    block="stages.{s}.blocks.{i}.",
    layers=("conv_dw", "norm", "mlp.fc1", "mlp.fc2", "gamma"),
    last_norm="head.norm",
    head="head.fc",
    grn=("mlp.grn.weight", "mlp.grn.bias", SAME),
)

TIMM = Naming(conventions.TIMM, _timm_rules())

# The four smallest networks of each version have 1 x 1 convolutions in place of linear layers.
TIMM_CONVOLVED = Naming(conventions.TIMM, _timm_rules(pointwise=(POINTWISE, SAME)))

NAMINGS = (META, EQUIMO, HUGGINGFACE, TIMM)
CLASSIFIERS = (META, CLASSIFIER, TIMM, TIMM_CONVOLVED)
