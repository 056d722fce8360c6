"""IREE, which compiles the output of ``iree-import-onnx``; examined in version 3.13.0 on a CPU."""

from dataclasses import replace

from converter.targets.openvino import TARGET as OPENVINO
from converter.targets.target import lacks_operators

LACKS = (*OPENVINO.lacks, lacks_operators("Attention RotaryEmbedding MatMulNBits"))

TARGET = replace(OPENVINO, name="iree", oldest="3.13", lacks=LACKS)
