"""Opening files that somebody else may have put where they are."""

import os
import stat
import sys
from os import PathLike
from typing import BinaryIO

if sys.platform == "win32":
    FLAGS = os.O_BINARY
else:  # a FIFO that nobody writes to would be waited for while it is opened
    FLAGS = os.O_NONBLOCK | os.O_CLOEXEC


def open_regular(path: str | PathLike[str]) -> BinaryIO:
    """Open a file to read its bytes, if it is one: no folder, no FIFO and no device.

    That is asked of what was opened, so that nothing can take its place in between.

    **Raises** `OSError`.
    """
    descriptor = os.open(path, os.O_RDONLY | FLAGS)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(f"{os.fspath(path)} is no regular file")
    return os.fdopen(descriptor, "rb")
