"""Pictures in terminals: of those that have a size, and those that nobody looks at."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

PROGRAM = """
from PIL import Image
from zoo.cli.console import print_picture
print_picture(Image.linear_gradient("L").convert("RGB"))
print("through")
"""


@pytest.mark.parametrize("rows, columns", [(40, 100), (0, 0)])
def test_a_picture_is_shown_where_there_is_room(rows, columns):
    """A container's terminal has no rows and columns."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    settings = os.environ | {"TERM": "xterm-256color"}
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], stdin=theirs, stdout=theirs, stderr=theirs, env=settings
    ) as process:
        os.close(theirs)
        said = b""
        while b"through" not in said and b"Traceback" not in said:
            said += os.read(ours, 1 << 16)
        process.kill() if b"Traceback" in said else process.wait()
    os.close(ours)
    assert process.returncode == 0, said.decode()
    assert ("▀" in said.decode() or "▄" in said.decode()) == bool(columns)
