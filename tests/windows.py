"""What Windows refuses, on Linux: open and mapped files stay in place, names hold no colon.

A process can be kept from that by Python's own calls; libraries in other languages are not.
"""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

OPEN, MAPPED = Path("/proc/self/fd"), Path("/proc/self/maps")

PLACES = {"unlink": 1, "remove": 1, "rmdir": 1, "rename": 2, "replace": 2}
"""Calls of `os` that Windows refuses for open files, and how many paths they take."""

CREATING = ("open", "os.mkdir", "os.rename")
FORBIDDEN = frozenset('<>:"|?*')


def open_files() -> Iterator[str]:
    """The files that this process has open or mapped."""
    for number in OPEN.iterdir():
        try:
            yield os.readlink(number)
        except OSError:
            continue
    for line in MAPPED.read_text().splitlines():
        yield from line.split(maxsplit=5)[5:]


def _refuse_open(path: Any, dir_fd: int | None) -> None:
    """**Raises** `PermissionError` if a file is open, or one inside of a folder."""
    place = os.fspath(path)
    if dir_fd is not None:
        place = os.path.join(os.readlink(OPEN / str(dir_fd)), place)
    name = os.path.realpath(place)
    if os.path.isfile(name) and name in open_files():
        raise PermissionError(13, "being used by another process", place)
    if os.path.isdir(name) and any(file.startswith(name + os.sep) for file in open_files()):
        raise PermissionError(13, "a file in it is being used by another process", place)


def _call(name: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    for path in args[: PLACES[name]]:
        _refuse_open(path, kwargs.get("dir_fd"))
    if name == "rename" and os.path.lexists(args[1]):
        raise FileExistsError(17, "cannot create a file when it exists already", os.fspath(args[1]))
    return real(*args, **kwargs)


def refusing() -> dict[str, Callable[..., Any]]:
    """Calls of `os` by name, as Windows has them."""
    return {name: partial(_call, name, getattr(os, name)) for name in PLACES}


def _refuse_names(folder: str, event: str, args: tuple[Any, ...]) -> None:
    """**Raises** `OSError` for a name below a folder that Windows does not take."""
    for path in args[: 1 + (event == "os.rename")] if event in CREATING else ():
        if isinstance(path, str | os.PathLike):
            place = os.path.join(os.getcwd(), os.fspath(path))
            if place.startswith(folder) and FORBIDDEN & set(place.removeprefix(folder)):
                raise OSError(22, "the name is not valid", place)


def simulate(folder: str) -> None:
    """Make this process refuse, for good, what Windows would; names in a folder alone."""
    for name, call in refusing().items():
        setattr(os, name, call)
    shutil._use_fd_functions = False
    sys.addaudithook(partial(_refuse_names, os.path.realpath(folder)))
