"""Choices about exported files: values of requests that manifests record."""

from typing import Literal, TypeAlias

from zoo.architectures.inputs import Kind

Layout = Literal["4d", "3d"]

Target: TypeAlias = str
"""The runtime that a file is written for, by the converter's name.

A version bound, as in `onnxruntime>=1.32`, limits the file to these versions.
"""

Precision = Literal["fp32", "fp16", "bf16", "int8", "q4", "q4f16"]

TOWERS: dict[Kind, str] = {"picture": "vision", "text": "text"}
"""The first word of the names of variants that hold one tower, by the kind of its input."""


def tower_variant(kind: Kind, variant: str) -> str:
    """Return the name of the variant that holds one tower of a variant with both towers.

    `kind` is the kind of the tower's input. An example is `text_fp16` for `text` and `fp16`.
    """
    return f"{TOWERS[kind]}_{variant}"


Scales = Literal["tensor", "row"]
"""The scaling of int8 activations: one scale for each tensor, or one for each row.

The scale of a tensor depends on all images of a batch.
"""

Input = Literal["float32", "uint8"]
"""The input of a file: preprocessed `pixel_values` in float32, or images in uint8.

Images may have any size. The file preprocesses them itself.
"""
