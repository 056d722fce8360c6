"""TensorRT, which implements the standard; it was not run here.

According to reports it does not support float64, supports only 4-D attention with one output, and
supports rotary embeddings from a later release on.
"""

from dataclasses import replace

from converter.targets.openvino import TARGET as OPENVINO

TARGET = replace(OPENVINO, name="tensorrt", oldest="10.15")
