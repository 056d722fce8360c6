"""TensorRT, which takes the standard; we cannot run it.

It is reported to have no float64, to take attention in four dimensions with one output, and rotary
embeddings a release after it.
"""

from dataclasses import replace

from converter.targets.openvino import TARGET as OPENVINO

TARGET = replace(OPENVINO, name="tensorrt", oldest="10.15")
