"""Names of Depth Anything V2's tensors in its authors' files and in those of transformers."""

from collections.abc import Iterator, Mapping

from weights.mapping import Naming, Rule, prefix_rules
from weights.namings import conventions, huggingface_names, meta_names
from weights.transforms import DECONVOLUTION, PER_CHANNEL, SAME, Transform


def _convolution(leaf: str, key: str, kernel: Transform = SAME) -> Iterator[Rule]:
    """Yield the rules that map a convolution's kernel and bias to leaves of the model.

    **Arguments:**

    - `leaf`: the path of the convolution in the model.
    - `key`: its name in the file.
    - `kernel`: the transform of its kernel.
    """
    yield Rule(f"{leaf}.weight", (f"{key}.weight",), kernel)
    yield Rule(f"{leaf}.bias", (f"{key}.bias",), PER_CHANNEL)


def _decoder(resize: str, convolutions: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules that map the tensors of a depth decoder to leaves of the model.

    **Arguments:**

    - `resize`: the name in the file of the convolution that resizes feature map `i`, with `{i}` for
      the number. Those of maps 0 and 1 are transposed convolutions, which enlarge their maps.
    - `convolutions`: the names in the file of the other convolutions, by their paths in the model.
    """
    resize_leaf = "decoder.reassemble.{i}.resize"
    transposed = (
        rule
        for i in range(2)
        for rule in _convolution(resize_leaf.format(i=i), resize.format(i=i), DECONVOLUTION)
    )
    untransposed = (
        rule
        for pair in {resize_leaf: resize, **convolutions}.items()
        for rule in _convolution(*pair)
    )
    return (*transposed, *untransposed)


_SCRATCH = "depth_head.scratch."

# The authors number fusions from the finest map, which is fused last.
_DECODER = _decoder(
    "depth_head.resize_layers.{i}",
    {
        "decoder.reassemble.{i}.projection": "depth_head.projects.{i}",
        **{f"decoder.convs.{i}": f"{_SCRATCH}layer{i + 1}_rn" for i in range(4)},
        **{
            f"decoder.fusion.{i}.{leaf_part}": f"{_SCRATCH}refinenet{4 - i}.{key_part}"
            for i in range(4)
            for leaf_part, key_part in (
                ("residual{n}.{layer}", "resConfUnit{n}.{layer}"),
                ("projection", "out_conv"),
            )
        },
        "decoder.conv1": f"{_SCRATCH}output_conv1",
        "decoder.conv2": f"{_SCRATCH}output_conv2.0",
        "decoder.conv3": f"{_SCRATCH}output_conv2.2",
    },
)


def _original_naming(backbone: Naming) -> Naming:
    """Return the authors' naming of Depth Anything, from the naming of its backbone."""
    rules = prefix_rules(backbone.rules, "backbone.", "pretrained.")
    return Naming(conventions.ORIGINAL, (*rules, *_DECODER))


ORIGINAL = _original_naming(meta_names.DINOV2_VIT)

ON_DINOV3 = _original_naming(meta_names.DINOV3_VIT)
"""Naming of the same decoder on DINOv3's vision transformer, as in a model that the zoo has
trained."""

_FUSED = "neck.fusion_stage.layers.{i}."

_NECK = _decoder(
    "neck.reassemble_stage.layers.{i}.resize",
    {
        "decoder.reassemble.{i}.projection": "neck.reassemble_stage.layers.{i}.projection",
        "decoder.convs.{i}": "neck.convs.{i}",
        "decoder.fusion.{i}.residual{n}.conv{m}": _FUSED + "residual_layer{n}.convolution{m}",
        "decoder.fusion.{i}.projection": _FUSED + "projection",
        "decoder.conv{n}": "head.conv{n}",
    },
)


def _transformers_naming(backbone: Naming) -> Naming:
    """Return transformers' naming of Depth Anything, from the naming of its backbone."""
    rules = prefix_rules(backbone.rules, "backbone.", "backbone.")
    in_memory = backbone.in_memory and _transformers_naming(backbone.in_memory)
    return Naming(conventions.HUGGINGFACE, (*rules, *_NECK), in_memory=in_memory)


HUGGINGFACE = _transformers_naming(huggingface_names.DINOV2_VIT)
