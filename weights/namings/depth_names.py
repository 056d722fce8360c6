"""Checkpoints of Depth Anything V2: its authors', and those for transformers."""

from collections.abc import Iterator, Mapping

from weights.mapping import Naming, Rule, nested
from weights.namings import conventions, huggingface_names, meta_names
from weights.transforms import DECONVOLUTION, PER_CHANNEL, SAME, Transform


def _convolution(ours: str, theirs: str, kernel: Transform = SAME) -> Iterator[Rule]:
    """A convolution's kernel, and its bias where there is one."""
    yield Rule(f"{ours}.weight", (f"{theirs}.weight",), kernel)
    yield Rule(f"{ours}.bias", (f"{theirs}.bias",), PER_CHANNEL)


def _decoder(resize: str, others: Mapping[str, str]) -> tuple[Rule, ...]:
    """Rules for a decoder, from what its convolutions are called. Those that change the size of a
    map are transposed in the first two layers, which enlarge theirs."""
    ours = "decoder.reassemble.{i}.resize"
    transposed = (
        rule
        for i in range(2)
        for rule in _convolution(ours.format(i=i), resize.format(i=i), DECONVOLUTION)
    )
    named = (rule for pair in {ours: resize, **others}.items() for rule in _convolution(*pair))
    return (*transposed, *named)


_SCRATCH = "depth_head.scratch."

# The finest map is the first for the authors, and the last that is fused.
_DECODER = _decoder(
    "depth_head.resize_layers.{i}",
    {
        "decoder.reassemble.{i}.projection": "depth_head.projects.{i}",
        **{f"decoder.convs.{i}": f"{_SCRATCH}layer{i + 1}_rn" for i in range(4)},
        **{
            f"decoder.fusion.{i}.{ours}": f"{_SCRATCH}refinenet{4 - i}.{theirs}"
            for i in range(4)
            for ours, theirs in (
                ("residual{n}.{layer}", "resConfUnit{n}.{layer}"),
                ("projection", "out_conv"),
            )
        },
        "decoder.conv1": f"{_SCRATCH}output_conv1",
        "decoder.conv2": f"{_SCRATCH}output_conv2.0",
        "decoder.conv3": f"{_SCRATCH}output_conv2.2",
    },
)


def _original(backbone: Naming) -> Naming:
    rules = nested(backbone.rules, "backbone.", "pretrained.")
    return Naming(conventions.ORIGINAL, (*rules, *_DECODER))


ORIGINAL = _original(meta_names.DINOV2_VIT)

ON_DINOV3 = _original(meta_names.DINOV3_VIT)
"""The same decoder on DINOv3's vision transformer, as the zoo itself trains one."""

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


def _in_transformers(backbone: Naming) -> Naming:
    rules = nested(backbone.rules, "backbone.", "backbone.")
    in_memory = backbone.in_memory and _in_transformers(backbone.in_memory)
    return Naming(conventions.HUGGINGFACE, (*rules, *_NECK), in_memory=in_memory)


HUGGINGFACE = _in_transformers(huggingface_names.DINOV2_VIT)
