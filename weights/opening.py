"""Opening files that somebody else may have put where they are, to read them."""

import codecs
import errno
import os
import stat
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from io import BufferedReader
from os import PathLike
from pathlib import Path, PurePosixPath
from typing import Self

if sys.platform == "win32":
    FLAGS = os.O_BINARY
else:  # a FIFO that nobody writes to would be waited for while it is opened
    FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: str | PathLike[str]) -> BufferedReader:
    """Open a file to read its bytes, if it is one: no folder, no FIFO and no device.

    That is asked of what was opened, so that nothing can take its place in between.

    **Raises** `OSError`.
    """
    return _regular(os.open(path, os.O_RDONLY | FLAGS), path)


def open_inside(folder: str | PathLike[str], name: str) -> BufferedReader:
    """Open a regular file of a folder that came from elsewhere: nothing on the way is a link.
    `name` has `/` between its parts. **Raises** `OSError`."""
    parts = PurePosixPath(name).parts
    # Windows: a link may come in between.
    if sys.platform == "win32" or os.open not in os.supports_dir_fd:
        ways = [Path(folder, *parts[: i + 1]) for i in range(len(parts))]
        if any(way.is_symlink() for way in ways):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(ways[-1]))
        return open_regular(ways[-1])
    with ExitStack() as stack:
        place = None
        for way in (folder, *parts[:-1]):
            flags = os.O_RDONLY | os.O_DIRECTORY | (os.O_NOFOLLOW if place is not None else 0)
            place = os.open(way, flags, dir_fd=place)
            stack.callback(os.close, place)
        return _regular(os.open(parts[-1], os.O_RDONLY | FLAGS | os.O_NOFOLLOW, dir_fd=place), name)


def _regular(descriptor: int, path: str | PathLike[str]) -> BufferedReader:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_at_most(path: str | PathLike[str], size: int) -> bytes:
    """The first bytes of a file, all of a smaller one. **Raises** `OSError`."""
    with open_regular(path) as file:
        return file.read(size)


def as_utf8(content: bytes) -> bytes:
    """Return a text file's content in UTF-8 without a byte order mark.

    Windows writes the mark: Notepad before UTF-8, PowerShell's `>` before UTF-16. Content that
    is not what its mark says is returned as it is, for its reader to refuse.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16").encode()
        except UnicodeError:
            return content
    return content.removeprefix(codecs.BOM_UTF8)


@dataclass(frozen=True)
class State:
    """Identity of a file that was opened, and what of it changes with its content."""

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, file: BufferedReader) -> Self:
        """The state of an open file."""
        return cls._of_status(os.fstat(file.fileno()))

    @classmethod
    def at(cls, path: str | PathLike[str]) -> Self:
        """The state of the file at a path. **Raises** `OSError`."""
        return cls._of_status(os.stat(path))

    @classmethod
    def _of_status(cls, status: os.stat_result) -> Self:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
