"""Print text to the terminal.

Much of the text comes from files and servers. Control characters in it are escaped, so that the
terminal does not execute them.
"""

import json
import os
import sys
from collections.abc import Callable
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from weights.printable import printable, with_escapes


def say(text: str = "", file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text to stdout, or to `file`, with control characters escaped."""
    print(printable(text), file=file or sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """Print a text to stderr, with control characters escaped."""
    say(text, sys.stderr)


def say_json(value: object, default: Callable[[object], object]) -> None:
    """Print a value to stdout as JSON. Control characters in strings are escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    print(with_escapes(text, lambda character: json.dumps(character)[1:-1]), flush=True)


def make_streams_tolerant() -> None:
    """Make stdout and stderr accept all characters.

    Characters that the encoding of a stream does not support are escaped. Output to a closed stream
    is discarded.
    """
    sys.stdout, sys.stderr = _tolerant_stream(sys.stdout), _tolerant_stream(sys.stderr)


def _tolerant_stream(stream: TextIO | None) -> TextIO:
    if stream is None:  # the stream was closed before this process started
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def leave_closed(stream: TextIO) -> None:
    """Redirect a stream to the null device, so that writing the rest of its buffer cannot fail."""
    with Path(os.devnull).open("w", encoding="utf-8") as null_device:
        os.dup2(null_device.fileno(), stream.fileno())
