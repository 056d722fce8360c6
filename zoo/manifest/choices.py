"""What files may be made in: said by requests, and kept in manifests."""

from typing import Literal

Layout = Literal["4d", "3d"]

Target = Literal[
    "onnxruntime",
    "tensorrt",
    "openvino",
    "web",
    "tract",
    "opencv",
    "iree",
    "portable",
    "standard",
]
"""The runtime that a file is for, as the converter knows them."""

Precision = Literal["fp32", "fp16", "bf16", "int8", "q4", "q4f16"]

Input = Literal["float32", "uint8"]
"""Preprocessed `pixel_values`, or images of any size that the file preprocesses itself."""
