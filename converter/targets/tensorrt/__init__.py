"""TensorRT, which implements the standard; it was not run here.

It is reported to lack float64, to take only 4-D attention with one output, and to support rotary
embeddings from a later release on.
"""

from dataclasses import replace

from converter.targets.openvino import TARGET as OPENVINO

TARGET = replace(OPENVINO, name="tensorrt", oldest="10.15")
