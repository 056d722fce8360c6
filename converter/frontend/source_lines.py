"""Find the line in the user's source that an equation comes from."""

import re
import sysconfig
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Any

import jax
from jax.extend import source_info_util

from converter.ir import Node

_JAX_PARENT = Path(jax.__file__).parents[1]
# JAX may be installed in another environment, or in a folder that also contains the user's code.
_JAX_FOLDER = _JAX_PARENT if _JAX_PARENT.name.endswith("-packages") else Path(jax.__file__).parent
_PACKAGES = (
    *(sysconfig.get_path(name) for name in ("purelib", "platlib", "stdlib")),
    str(_JAX_FOLDER),
)
_CONVERTER = str(Path(__file__).parents[1])
_INSTALLED = (*_PACKAGES, _CONVERTER, "<")
_LINE = re.compile(r"(?P<file>.+?):(?P<rest>\d+.*)")


def line_of(sources: Iterable[Any]) -> str:
    """Return the user's source line of an equation as text: ``models/layers.py:44 (gelu)``.

    It is the innermost frame in a user's file (`is_user_file`). If there is none, it is the
    innermost frame outside of JAX and the converter, and otherwise "unknown source line".

    Arguments:
        sources: JAX's source locations of the equation and of the calls around it, innermost first.
    """
    source_list = list(sources)
    for source in source_list:
        for frame in source.traceback.frames if source.traceback else ():
            if is_user_file(frame.file_name):
                return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    summaries = [source_info_util.summarize(source) for source in source_list]
    return next((s for s in summaries if s and not s.startswith(_CONVERTER)), "unknown source line")


def is_user_file(file: str) -> bool:
    """Return True if the path of a source file is neither in an installed package nor in the
    converter, and is no name in brackets such as ``<stdin>``."""
    return not file.startswith(_INSTALLED)


def portable_line(node: Node) -> str:
    """Return the user's source line of a node with a path that is the same on every machine.

    The path starts at the outermost package of the file: ``zoo/apps/bench/measure.py:44 (gelu)``.
    Return "" if the line is unknown.
    """
    parts = _LINE.fullmatch(line_of(node.source))
    return f"{_relative_to_root(parts['file'])}:{parts['rest']}" if parts else ""


@cache
def _relative_to_root(file: str) -> str:
    """Return the path of a source file relative to the folder that has its outermost package, or to
    the folder of installed packages."""
    path = Path(file)
    root = next((Path(f) for f in _PACKAGES if path.is_relative_to(f)), path.parent)
    while (root / "__init__.py").is_file():
        root = root.parent
    return path.relative_to(root).as_posix()
