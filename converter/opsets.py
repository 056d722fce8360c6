"""Which versions of ONNX are written, and for which runtime. Importing this costs nothing."""

import re
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

OLDEST_RUNTIME: Final = "1.23.1"
"""The oldest ONNX Runtime that files are checked in, and are for if no version is asked for: 1.23.0
mixes up the groups of heads of `Attention`."""

OLDEST_ON_CUDA: Final = "1.25"
"""The first ONNX Runtime whose CUDA provider has the operators of `FUSED`, by its release notes."""

WEB_RELEASE: Final = "1.30.0"
"""The newest release of onnxruntime-web on npm: files for the web use its kernels."""


def is_older(version: str, other: str) -> bool:
    """Whether a version of a runtime came before another: ``1.9.1`` before ``1.23``."""
    first, second = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, other))
    return first < second


def too_old(version: str) -> str:
    """Warning of an ONNX Runtime that files cannot be checked in; none of a newer one."""
    if not is_older(version, OLDEST_RUNTIME):
        return ""
    return (
        f"ONNX Runtime {version} is installed, which is older than {OLDEST_RUNTIME}: install a "
        "newer one here, as with `pip install --upgrade onnxruntime`. A file for that version is "
        f"written by target onnxruntime=={version}, and runs there without this package"
    )
