"""Progress of long operations: the protocol of its listeners."""

import sys
from typing import Protocol

from weights.printable import printable


class Progress(Protocol):
    """Listener that is notified of the progress of a long operation."""

    def stage(self, text: str, total: int | None = None) -> None:
        """Start a new stage, which `text` describes. `total` is its size in bytes; None if that is
        not known."""

    def step(self, size: int) -> None:
        """Report that `size` more bytes of the stage are done."""

    def note(self, text: str) -> None:
        """Show a text to the user, also if no progress is shown."""


class Quiet:
    """Listener that shows notes and ignores all progress."""

    def stage(self, text: str, total: int | None = None) -> None:
        pass

    def step(self, size: int) -> None:
        pass

    def note(self, text: str) -> None:
        print_note(text)


def print_note(text: str) -> None:
    """Print a text on stderr, or on stdout in a notebook cell, where stderr looks like an error."""
    print(printable(text), file=sys.stdout if is_notebook_cell() else sys.stderr, flush=True)


def is_notebook_cell() -> bool:
    """Return whether this process runs the cells of a notebook. Jupyter shows stderr on a red
    background."""
    return type(sys.stderr).__module__ == "ipykernel.iostream"
