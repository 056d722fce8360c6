"""Source lines that read the same on every machine."""

from __future__ import annotations

import re
import sysconfig
from functools import cache
from pathlib import Path

from converter.frontend.trace import source_line
from converter.ir import Node

_LINE = re.compile(r"(?P<file>.+?):(?P<rest>\d+.*)")
_PACKAGES = tuple(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib", "stdlib"))


def portable_line(node: Node) -> str:
    """``source_line``, the file within its package: ``zoo/models/layers.py:44 (gelu)``."""
    found = _LINE.fullmatch(source_line(node))
    return f"{_within(found['file'])}:{found['rest']}" if found else ""


@cache
def _within(file: str) -> str:
    path = Path(file)
    for folder in _PACKAGES:
        if path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    root = path.parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return path.relative_to(root).as_posix()
