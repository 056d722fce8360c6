"""What files may be made in: said by requests, and kept in manifests."""

from typing import Literal, TypeAlias

from zoo.architectures.inputs import Kind

Layout = Literal["4d", "3d"]

Target: TypeAlias = str
"""The runtime that a file is for, as the converter knows them; with versions, as in
`onnxruntime>=1.32`, it is for these alone."""

Precision = Literal["fp32", "fp16", "bf16", "int8", "q4", "q4f16"]

TOWERS: dict[Kind, str] = {"picture": "vision", "text": "text"}
"""How the variants of the parts of a model of two begin, by what they take."""


def tower_variant(taken: Kind, variant: str) -> str:
    """The variant that is the part of another which takes pictures, or texts."""
    return f"{TOWERS[taken]}_{variant}"


Scales = Literal["tensor", "row"]
"""How activations of int8 are scaled: by one scale for each tensor, which depends on all images of
a batch, or by one for each row."""

Input = Literal["float32", "uint8"]
"""Preprocessed `pixel_values`, or images of any size that the file preprocesses itself."""
