"""What runtimes can do: a table each. Passes and rules ask it and know no runtime themselves."""

from __future__ import annotations

from converter.targets.onnxruntime import ONNXRUNTIME
from converter.targets.standard import STANDARD
from converter.targets.target import Target

__all__ = ["ONNXRUNTIME", "TARGETS", "Target"]

TARGETS = {target.name: target for target in (ONNXRUNTIME, STANDARD)}
"""By the name that ``to_onnx`` takes."""
