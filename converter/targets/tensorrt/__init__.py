"""TensorRT, which takes the standard; we cannot run it.

It is reported to have no float64, and to take attention in four dimensions with one output from
10.14 on.
"""

from dataclasses import replace

from converter.targets.openvino import TARGET as OPENVINO

TARGET = replace(OPENVINO, name="tensorrt")
