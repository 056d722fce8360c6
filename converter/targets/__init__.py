"""What runtimes can do: a table each. Passes and rules ask it and know no runtime themselves."""

from __future__ import annotations

from converter.targets.devices import OPENVINO, TENSORRT
from converter.targets.onnxruntime import ONNXRUNTIME, WEB
from converter.targets.standard import STANDARD
from converter.targets.target import AttentionLayout, Target

__all__ = ["ONNXRUNTIME", "TARGETS", "AttentionLayout", "Target"]

TARGETS = {target.name: target for target in (ONNXRUNTIME, TENSORRT, OPENVINO, WEB, STANDARD)}
"""By the name that ``to_onnx`` takes."""
