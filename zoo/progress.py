"""Progress on stderr: a bar on a terminal, or lines for a log."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from weights.progress import Progress, Quiet
from weights.terminal import complain, printable

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress


def is_terminal(stream: TextIO) -> bool:
    """Whether pictures can be drawn there.

    What a cell of a notebook runs gets a terminal too (Jupyter says so by `JPY_PARENT_PID`), but
    its cursor does not move.
    """
    return stream.isatty() and "JPY_PARENT_PID" not in os.environ


@contextmanager
def bar(elsewhere: Progress | None = None) -> Generator[Progress]:
    """A progress bar on stderr; where that is no terminal, `elsewhere`, or else nothing."""
    if not is_terminal(sys.stderr):
        yield elsewhere or Quiet()
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.SpinnerColumn(), "{task.description}", rich.BarColumn(), rich.DownloadColumn())
    ends = (rich.TransferSpeedColumn(), rich.TimeElapsedColumn())
    with rich.Progress(*columns, *ends, console=Console(stderr=True), transient=True) as shown:
        yield Bar(shown)


class Lines:
    """Progress as one line a stage, and one every ten seconds of a stage that tells its size."""

    PAUSE = 10.0

    total: int | None = None
    done = 0

    def stage(self, text: str, total: int | None = None) -> None:
        complain(text)
        self.total, self.done = total, 0
        self.began = self.told = time.monotonic()

    def step(self, size: int) -> None:
        self.done += size
        now = time.monotonic()
        if self.total is not None and now - self.told >= self.PAUSE:
            done, total = self.done / 1e6, self.total / 1e6
            rate = done / (now - self.began)
            complain(f"  {done:,.0f} of {total:,.0f} MB, {rate:,.0f} MB/s")
            self.told = now

    def note(self, text: str) -> None:
        complain(text)


class Bar:
    """Progress as a bar of rich's."""

    def __init__(self, rich: RichProgress):
        self.rich = rich
        self.task = rich.add_task("starting", total=None)

    def stage(self, text: str, total: int | None = None) -> None:
        self.rich.reset(self.task, description=printable(text), total=total)

    def step(self, size: int) -> None:
        self.rich.advance(self.task, size)

    def note(self, text: str) -> None:
        self.rich.console.print(printable(text), markup=False, highlight=False)
