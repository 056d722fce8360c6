"""Which versions of ONNX are written, and for which runtime. Importing this costs nothing."""

from pathlib import Path
from typing import Final

IR_VERSIONS = {
    **dict.fromkeys(range(17, 21), 8),
    **dict.fromkeys(range(21, 24), 10),
    **dict.fromkeys(range(24, 27), 11),
}
"""The version of ONNX's file format that is written for each opset."""

OPSETS = range(17, 27)
"""The versions of ONNX's operators that can be asked for."""

OLDEST = OPSETS.start

FUSED = 23
"""The opset that brought operators for attention, rotary embeddings and root mean square norms."""

TARGET_NAMES = tuple(
    sorted(file.parent.name for file in Path(__file__).parent.glob("targets/*/__init__.py"))
)
"""The runtimes that a file can be for."""

DEFAULT_TARGET: Final = "onnxruntime"
"""The runtime that a file is for if no other is asked for."""
