"""Simulate Windows on Linux: open and mapped files cannot be moved or removed, and names contain no
colon.

The simulation replaces calls of Python. Libraries in other languages are not affected.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

OPEN, MAPPED = Path("/proc/self/fd"), Path("/proc/self/maps")

PATH_COUNTS = {"unlink": 1, "remove": 1, "rmdir": 1, "rename": 2, "replace": 2}
"""Calls of `os` that Windows refuses for open files, and the number of paths that they take."""

CREATING = ("open", "os.mkdir", "os.rename")
FORBIDDEN = frozenset('<>:"|?*')


def open_files() -> Iterator[str]:
    """Yield the files that this process has open or mapped."""
    for number in OPEN.iterdir():
        try:
            yield os.readlink(number)
        except OSError:
            continue
    for line in MAPPED.read_text().splitlines():
        yield from line.split(maxsplit=5)[5:]


def _refuse_open(path: Any, dir_fd: int | None) -> None:
    """Raise `PermissionError` if a file is open, or if a folder has an open file in it."""
    full_path = os.fspath(path)
    if dir_fd is not None:
        full_path = os.path.join(os.readlink(OPEN / str(dir_fd)), full_path)
    real_path = os.path.realpath(full_path)
    if os.path.isfile(real_path) and real_path in open_files():
        raise PermissionError(13, "being used by another process", full_path)
    if os.path.isdir(real_path) and any(
        file.startswith(real_path + os.sep) for file in open_files()
    ):
        raise PermissionError(13, "a file in it is being used by another process", full_path)


def _call(name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for path in args[: PATH_COUNTS[name]]:
        _refuse_open(path, kwargs.get("dir_fd"))
    if name == "rename" and os.path.lexists(args[1]):
        raise FileExistsError(17, "cannot create a file when it exists already", os.fspath(args[1]))
    return real(*args, **kwargs)


def refusing() -> dict[str, Callable[..., Any]]:
    """Return calls of `os` by name that behave as on Windows."""
    return {name: partial(_call, name, getattr(os, name)) for name in PATH_COUNTS}


def _refuse_names(folder: str, event: str, args: tuple[Any, ...]) -> None:
    """Raise `OSError` for a name below a folder that is invalid on Windows."""
    for path in args[: 1 + (event == "os.rename")] if event in CREATING else ():
        if isinstance(path, str | os.PathLike):
            full_path = os.path.join(os.getcwd(), os.fspath(path))
            if full_path.startswith(folder) and FORBIDDEN & set(full_path.removeprefix(folder)):
                raise OSError(22, "the name is not valid", full_path)


def simulate(folder: str) -> None:
    """Make this process refuse for good what Windows refuses. Names are checked below `folder`
    only."""
    for name, call in refusing().items():
        setattr(os, name, call)
    shutil._use_fd_functions = False
    sys.addaudithook(partial(_refuse_names, os.path.realpath(folder)))
