"""Progress of long work: the one protocol for all who want to be told."""

from typing import Protocol


class Progress(Protocol):
    """Somebody who wants to know how far the work has come."""

    def stage(self, text: str, total: int | None = None) -> None:
        """A new stage begins; `total` bytes of work lie in it, if that is known."""
        ...

    def step(self, size: int) -> None:
        """So many more bytes of the stage are done."""
        ...


class Quiet:
    """Nobody is told."""

    def stage(self, text: str, total: int | None = None) -> None:
        pass

    def step(self, size: int) -> None:
        pass
