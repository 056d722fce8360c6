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


def say(text: str = "", file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text on stdout, or elsewhere, as it can be shown."""
    print(printable(text), file=file or sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """Print a text on stderr, as it can be shown."""
    say(text, sys.stderr)


def say_aside(text: str) -> None:
    """Print a text that is no error on stderr; in a cell of a notebook on stdout."""
    say(text, sys.stdout if in_cell() else sys.stderr)


def in_cell() -> bool:
    """Whether a cell of a notebook runs in this process: Jupyter paints its stderr red."""
    return type(sys.stderr).__module__ == "ipykernel.iostream"


def printable(text: str) -> str:
    """A text in which whatever cannot be seen is written as an escape: what moves a cursor, sets a
    window's title or turns the direction of reading. Lines and tabs stay."""
    return _shown(text, lambda character: character.encode("unicode_escape").decode())


def _shown(text: str, escaped: Callable[[str], str]) -> str:
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else escaped(c) for c in text)


def say_json(value: object, default: Callable[[object], object]) -> None:
    """Print one document, in which the same is escaped as JSON escapes it."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    print(_shown(text, lambda character: json.dumps(character)[1:-1]), flush=True)


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
