"""Texts for people and programs that read what is printed.

Much of them comes from files and servers: it is shown, and not obeyed by a terminal.
"""

import json
import os
import sys
from collections.abc import Callable
from typing import TextIO


def say(text: str = "", file: TextIO | None = None, end: str = "\n") -> None:
    """Print a text on stdout, or elsewhere, as it can be shown."""
    print(printable(text), file=file or sys.stdout, end=end, flush=True)


def complain(text: str) -> None:
    """Print a text on stderr, as it can be shown."""
    say(text, sys.stderr)


def printable(text: str) -> str:
    """A text in which whatever cannot be seen is written as an escape: what moves a cursor, sets a
    window's title or turns the direction of reading. Lines and tabs stay."""
    return "".join(c if c.isprintable() or c in "\n\t" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()


def say_json(value: object, default: Callable[[object], object]) -> None:
    """Print one document, in which the same is escaped as JSON escapes it."""
    text = json.dumps(value, indent=2, ensure_ascii=False, default=default)
    shown = (c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)
    print("".join(shown), flush=True)


def survive() -> None:
    """Have stdout and stderr take what their encoding lacks, also where they were closed."""
    for name in ("stdout", "stderr"):
        stream = vars(sys)[name]
        if stream is None:  # closed before this process began
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
        else:
            stream.reconfigure(errors="backslashreplace")


def leave_closed(stream: TextIO) -> None:
    """Write nothing more to a stream that nobody reads, not even what is left of it at the end."""
    with open(os.devnull, "w") as nothing:
        os.dup2(nothing.fileno(), stream.fileno())
