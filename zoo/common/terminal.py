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


def print_stdout(text: str = "", file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text to stdout, or to `file`, with escapes in place of unprintable characters.

    Line breaks and tabs are printed.
    """
    print(printable(text), file=file or sys.stdout, end=end, flush=True)


def print_stderr(text: str) -> None:
    """Print a text to stderr, with escapes in place of unprintable characters."""
    print_stdout(text, sys.stderr)


def print_json_stdout(value: object, default: Callable[[object], object]) -> None:
    """Print a value to stdout as indented JSON, with escapes in place of unprintable characters.

    `default` converts values that JSON cannot represent, as for `json.dumps`.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    print(with_escapes(text, lambda character: json.dumps(character)[1:-1]), flush=True)


def make_streams_tolerant() -> None:
    """Configure `sys.stdout` and `sys.stderr` so that printing any text does not fail.

    Characters that the encoding of a stream lacks are printed as escapes. If a stream was closed
    before the process started, its output is discarded.
    """
    sys.stdout, sys.stderr = _tolerant_stream(sys.stdout), _tolerant_stream(sys.stderr)


def _tolerant_stream(stream: TextIO | None) -> TextIO:
    """Return a stream that prints escapes for characters that its encoding lacks.

    None stands for a stream that was closed before the process started. Return the null device for
    it.
    """
    if stream is None:  # the stream was closed before this process started
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def redirect_to_null_device(stream: TextIO) -> None:
    """Redirect the file descriptor of a stream to the null device, in place.

    Use it if the process that reads the stream from a pipe has ended, so that a later flush does
    not fail.
    """
    with Path(os.devnull).open("w", encoding="utf-8") as null_device:
        os.dup2(null_device.fileno(), stream.fileno())
