"""Where in the user's source an equation comes from."""

from __future__ import annotations

import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jax.extend import source_info_util


def line_of(sources: Iterable[Any]) -> str:
    """The user's own source line, where JAX recorded it.

    The innermost frame outside installed packages, else the innermost outside JAX.
    """
    known = list(sources)
    for source in known:
        for frame in source.traceback.frames if source.traceback else ():
            if is_users_line(frame.file_name):
                return f"{frame.file_name}:{frame.line_num} ({frame.function_name})"
    summaries = [source_info_util.summarize(source) for source in known]
    return next((s for s in summaries if s), "unknown source line")


def is_users_line(file: str) -> bool:
    """Whether a file is the user's own: neither an installed package's nor ours."""
    return not file.startswith((*_INSTALLED, "<"))


_INSTALLED = (
    sysconfig.get_path("purelib"),
    sysconfig.get_path("platlib"),
    sysconfig.get_path("stdlib"),
    str(Path(__file__).parents[1]),
)
