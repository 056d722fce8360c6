"""Progress of long work: the one protocol for all who want to be told."""

import sys
from typing import Protocol

from weights.printable import printable


class Progress(Protocol):
    """Somebody who wants to know how far the work has come."""

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins; `total` bytes of work lie in it, if that is known."""

    def step(self, size: int) -> None:
        """Count so many more bytes of the stage as done."""

    def note(self, text: str) -> None:
        """Something to be read, whoever does not watch the work."""


class Quiet:
    """Nobody is told but of what has to be read."""

    def stage(self, text: str, total: int | None = None) -> None:
        pass

    def step(self, size: int) -> None:
        pass

    def note(self, text: str) -> None:
        say_aside(text)


def say_aside(text: str) -> None:
    """Print a text that is no error on stderr; in a cell of a notebook on stdout."""
    print(printable(text), file=sys.stdout if in_cell() else sys.stderr, flush=True)


def in_cell() -> bool:
    """Whether a cell of a notebook runs in this process: Jupyter paints its stderr red."""
    return type(sys.stderr).__module__ == "ipykernel.iostream"
