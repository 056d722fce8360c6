"""Texts for people and programs that read what is printed.

Much of them comes from files and servers: it is shown, and not obeyed by a terminal.
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
    """Print a text on stdout, or elsewhere, as it can be shown."""
    print(printable(text), file=file or sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """Print a text on stderr, as it can be shown."""
    say(text, sys.stderr)


def say_json(value: object, default: Callable[[object], object]) -> None:
    """Print one document, in which the same is escaped as JSON escapes it."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    print(with_escapes(text, lambda character: json.dumps(character)[1:-1]), flush=True)


def survive() -> None:
    """Have stdout and stderr take what their encoding lacks, also where they were closed."""
    sys.stdout, sys.stderr = _surviving(sys.stdout), _surviving(sys.stderr)


def _surviving(stream: TextIO | None) -> TextIO:
    if stream is None:  # closed before this process began
        return Path(os.devnull).open("w", encoding="utf-8")
    if isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def leave_closed(stream: TextIO) -> None:
    """Write nothing more to a stream that nobody reads, not even what is left of it at the end."""
    with Path(os.devnull).open("w", encoding="utf-8") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
