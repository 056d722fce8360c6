"""Choices about exported files: values of requests that manifests record."""

from typing import Literal, TypeAlias

from zoo.architectures.inputs import Kind

Layout = Literal["4d", "3d"]

Target: TypeAlias = str
"""Runtime that a file is written for, by the converter's name. A version bound, as in
`onnxruntime>=1.32`, limits it to these versions."""

Precision = Literal["fp32", "fp16", "bf16", "int8", "q4", "q4f16"]

TOWERS: dict[Kind, str] = {"picture": "vision", "text": "text"}
"""Prefix of the variant that holds one tower, by the kind of its input."""


def tower_variant(kind: Kind, variant: str) -> str:
    """Return the name of the variant with one tower of another variant: the one that takes this
    kind of input."""
    return f"{TOWERS[kind]}_{variant}"


Scales = Literal["tensor", "row"]
"""Scaling of int8 activations: one scale for each tensor, which depends on all images of a batch,
or one scale for each row."""

Input = Literal["float32", "uint8"]
"""Input of a file: preprocessed `pixel_values` in float32, or images in uint8 of any size that the
file preprocesses itself."""
