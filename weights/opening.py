"""Open files that may come from an untrusted source."""

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
else:  # opening a FIFO without a writer would block
    FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: str | PathLike[str]) -> BufferedReader:
    """Open a regular file for reading bytes.

    The type is checked on the open file, so that the path cannot be exchanged in between.

    **Raises** `OSError` if there is no such file, or if the path is a folder, a FIFO or a device.
    """
    return _as_regular_file(os.open(path, os.O_RDONLY | FLAGS), path)


def open_inside(folder: str | PathLike[str], name: str) -> BufferedReader:
    """Open a regular file in a folder that comes from an untrusted source, without following links.

    **Arguments:**

    - `folder`: the folder, whose own path may contain links.
    - `name`: the path of the file in the folder, with `/` between its parts. The caller checks that
      it is relative and has no part `..`.

    **Raises** `OSError` if the file does not exist, is not regular, or a part of `name` is a link.
    """
    parts = PurePosixPath(name).parts
    # Windows cannot open a file relative to an open folder: a link may be created after the check.
    if sys.platform == "win32" or os.open not in os.supports_dir_fd:
        paths = [Path(folder, *parts[: i + 1]) for i in range(len(parts))]
        if any(path.is_symlink() for path in paths):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.fspath(paths[-1]))
        return open_regular(paths[-1])
    with ExitStack() as stack:
        directory = None
        for path in (folder, *parts[:-1]):
            flags = os.O_RDONLY | os.O_DIRECTORY | (os.O_NOFOLLOW if directory is not None else 0)
            directory = os.open(path, flags, dir_fd=directory)
            stack.callback(os.close, directory)
        return _as_regular_file(
            os.open(parts[-1], os.O_RDONLY | FLAGS | os.O_NOFOLLOW, dir_fd=directory), name
        )


def _as_regular_file(descriptor: int, path: str | PathLike[str]) -> BufferedReader:
    """Return a file object for an open descriptor. `path` is named in the error.

    **Raises** `OSError` if it is not a regular file. The descriptor is closed then.
    """
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return os.fdopen(descriptor, "rb")


def read_at_most(path: str | PathLike[str], size: int) -> bytes:
    """Return the first `size` bytes of a file, or all bytes of a smaller one. **Raises** `OSError`
    if the file cannot be read or is not a regular file."""
    with open_regular(path) as file:
        return file.read(size)


def as_utf8(content: bytes) -> bytes:
    """Return the content of a text file in UTF-8 without a byte order mark.

    Content with a UTF-16 mark is converted. A UTF-8 mark is removed. Content without a mark is
    returned unchanged, and so is content that is not valid UTF-16 after its mark. The caller's
    parser then rejects it.

    Windows writes the marks: Notepad in UTF-8 files, PowerShell's `>` in UTF-16 files.
    """
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return content.decode("utf-16").encode()
        except UnicodeError:
            return content
    return content.removeprefix(codecs.BOM_UTF8)


@dataclass(frozen=True)
class State:
    """Identity, size and modification time of a file. Two different states mean that the file was
    changed or replaced.

    `changed` is the time of the last modification in nanoseconds.
    """

    device: int
    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, file: BufferedReader) -> Self:
        """Return the state of an open file."""
        return cls._of_status(os.fstat(file.fileno()))

    @classmethod
    def at(cls, path: str | PathLike[str]) -> Self:
        """Return the state of the file at a path. **Raises** `OSError` if there is no file."""
        return cls._of_status(os.stat(path))

    @classmethod
    def _of_status(cls, status: os.stat_result) -> Self:
        """Return the state that the operating system's `stat` result describes."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
