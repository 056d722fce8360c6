"""Progress on stderr: a bar on a terminal, or lines for a log; in a notebook below the cell."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TextIO

from weights.printable import printable
from weights.progress import Progress, Quiet, is_notebook_cell
from zoo.common.terminal import complain, say

if TYPE_CHECKING:
    from IPython.display import DisplayHandle
    from rich.progress import Progress as RichProgress

NOTEBOOK = "JPY_PARENT_PID"
"""What Jupyter sets for a kernel and for what its cells run."""


def is_terminal(stream: TextIO) -> bool:
    """Whether pictures can be drawn there.

    What a cell of a notebook runs with `!` gets a terminal too, but its cursor does not move.
    """
    return stream.isatty() and NOTEBOOK not in os.environ


def is_red() -> bool:
    """Whether a notebook shows as errors what a command writes on stderr: in a cell of `%%sh`,
    unless it has `exec 2>&1` or sends that elsewhere."""
    if NOTEBOOK not in os.environ or sys.stderr.isatty():
        return False
    errors, results = os.fstat(2), os.fstat(1)
    return stat.S_ISFIFO(errors.st_mode) and not os.path.samestat(errors, results)


@contextmanager
def bar(elsewhere: Progress | None = None) -> Generator[Progress]:
    """A progress bar on stderr, or below a notebook's cell; where that is no terminal,
    `elsewhere`, or else nothing."""
    if is_notebook_cell():
        with BelowCell() as below:
            yield below
        return
    if not is_terminal(sys.stderr):
        yield elsewhere or Quiet()
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.SpinnerColumn(), "{task.description}", rich.BarColumn(), "{task.fields[moved]}")
    ends = (rich.TimeElapsedColumn(),)
    with rich.Progress(*columns, *ends, console=Console(stderr=True), transient=True) as shown:
        yield Bar(shown)


def log(text: str) -> None:
    """Write a line of progress on stderr, unless a notebook would show it as an error."""
    if not is_red():
        complain(text)


class Lines:
    """Progress as one line a stage, and one every ten seconds of a stage that tells its size."""

    PAUSE = 10.0

    total: int | None = None
    done = 0

    def stage(self, text: str, total: int | None = None) -> None:
        log(text)
        self.total, self.done = total, 0
        self.began = self.told = time.monotonic()

    def step(self, size: int) -> None:
        self.done += size
        now = time.monotonic()
        if self.total is not None and now - self.told >= self.PAUSE:
            done, total = self.done / 1e6, self.total / 1e6
            rate = done / (now - self.began)
            log(f"  {done:,.0f} of {total:,.0f} MB, {rate:,.0f} MB/s")
            self.told = now

    def note(self, text: str) -> None:
        complain(text)


class BelowCell:
    """Progress as a line below a cell of a notebook, which is empty when the work is done.

    Work of less than a second shows none.
    """

    PATIENCE, PAUSE, WIDTH = 1.0, 0.2, 20

    def __init__(self) -> None:
        self.text, self.total, self.done = "", 0, 0
        self.told = time.monotonic() + self.PATIENCE - self.PAUSE
        self.line: DisplayHandle | None = None

    def __enter__(self) -> BelowCell:
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            self.line.update({"text/plain": ""}, raw=True)

    def stage(self, text: str, total: int | None = None) -> None:
        self.text, self.total, self.done = text, total or 0, 0
        self._draw()

    def step(self, size: int) -> None:
        self.done += size
        self._draw()

    def note(self, text: str) -> None:
        say(text)

    def _draw(self) -> None:
        now = time.monotonic()
        if now - self.told < self.PAUSE:
            return
        self.told, text = now, printable(self.text)
        if self.total:
            full = min(self.WIDTH, self.WIDTH * self.done // self.total)
            drawn = "█" * full + "░" * (self.WIDTH - full)
            text += f" {drawn} {self.done / 1e6:,.0f} of {self.total / 1e6:,.0f} MB"
        if self.line is None:
            from IPython.display import display

            self.line = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.line.update({"text/plain": text}, raw=True)


class Bar:
    """Progress as a bar of rich's."""

    def __init__(self, rich: RichProgress):
        self.rich = rich
        self.task = rich.add_task("starting", total=None, moved="")

    def stage(self, text: str, total: int | None = None) -> None:
        self.rich.reset(self.task, description=printable(text), total=total, moved="")

    def step(self, size: int) -> None:
        self.rich.advance(self.task, size)
        task = self.rich.tasks[0]
        if task.total is not None:
            moved = f"{task.completed / 1e6:,.1f} of {task.total / 1e6:,.1f} MB"
            speed = f", {task.speed / 1e6:,.1f} MB/s" if task.speed else ""
            self.rich.update(self.task, moved=moved + speed)

    def note(self, text: str) -> None:
        self.rich.console.print(printable(text), markup=False, highlight=False)
