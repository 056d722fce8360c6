"""What runtimes get wrong or cannot run: a minimal file each, `python -m tests.judges.habits`.

The tables are what `docs/runtimes.md` shows. A test runs every file, so that one that a newer
runtime has mended is noticed. It stays, with the version that mended it, as long as a version
before that one is supported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

Runtime: TypeAlias = Literal["onnxruntime", "openvino", "tract", "opencv", "onnx.reference"]
Arrays: TypeAlias = Sequence[np.ndarray]

DIES = "the process ends"
"""What is seen where a file takes the whole process with it."""


@dataclass(frozen=True)
class Habit:
    """A file that a runtime does something else with than the standard and JAX.

    ``model`` is in ONNX's text form, without its header. ``right`` is what JAX gives for the same
    thing, and the standard's evaluator if the text settles it; ``seen`` what the runtime gives, a
    part of what it says where it refuses, or that the process ends. ``standard`` tells what the
    operator's text says, ``ours`` what the converter does about it; ``settled`` is false where the
    text leaves the result open, so that no runtime is at fault. ``versions`` are those that do it,
    all if empty.
    """

    name: str
    model: str
    inputs: Arrays
    right: Arrays
    seen: Arrays | str
    standard: str
    ours: str
    settled: bool = True
    opset: int = 23
    ir_version: int = 10
    versions: str = ""

    @property
    def text(self) -> str:
        """The model as `onnx.parser` reads it."""
        header = f'<ir_version: {self.ir_version}, opset_import: ["" : {self.opset}]>'
        return f"{header}\n{self.model.strip()}"
