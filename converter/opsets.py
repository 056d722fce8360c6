"""The supported ONNX versions and the names of the targets. This module imports quickly."""

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
"""The supported opsets."""

OLDEST_OPSET = OPSETS.start

FIRST_FUSED_OPSET = 23
"""The first opset with operators for attention, rotary embeddings and RMS norms."""

TARGET_NAMES = tuple(
    sorted(file.parent.name for file in Path(__file__).parent.glob("targets/*/__init__.py"))
)
"""The names of the targets."""

DEFAULT_TARGET: Final = "onnxruntime"
"""The default target."""

OLDEST_RUNTIME: Final = "1.23.1"
"""The oldest ONNX Runtime in which files are verified, and the oldest that they are for by default:
1.23.0 confuses the groups of heads of `Attention`."""

OLDEST_ON_CUDA: Final = "1.25"
"""The first ONNX Runtime whose CUDA provider has the operators of `FIRST_FUSED_OPSET`, by its
release notes."""

WEB_RELEASE: Final = "1.30.0"
"""The newest release of onnxruntime-web on npm: files for the web use its kernels."""


def is_older(version: str, other: str) -> bool:
    """Return True if ``version`` is an older release than ``other``: ``1.9.1`` is older than
    ``1.23``.

    The first three numbers of the texts are compared as numbers. An equal version is not older. A
    missing number is less than any other: ``1.23`` is older than ``1.23.0``.
    """
    first, second = (tuple(map(int, re.findall(r"\d+", text)[:3])) for text in (version, other))
    return first < second


def warning_if_too_old(version: str) -> str:
    """Return a warning if this version of ONNX Runtime is older than ``OLDEST_RUNTIME``, else "".

    Files cannot be verified in an older version.
    """
    if not is_older(version, OLDEST_RUNTIME):
        return ""
    return (
        f"ONNX Runtime {version} is installed, which is older than {OLDEST_RUNTIME}: install a "
        "newer one here, for example with `pip install --upgrade onnxruntime`. Files for that "
        f"version are written with target onnxruntime=={version} and run there without this package"
    )
