"""Show progress on stderr: as a bar in a terminal, as lines in a log, or below a notebook cell."""

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
from zoo.common.terminal import print_stderr, print_stdout

if TYPE_CHECKING:
    from IPython.display import DisplayHandle
    from rich.progress import Progress as RichProgress

NOTEBOOK = "JPY_PARENT_PID"
"""An environment variable that Jupyter sets for a kernel and the programs that its cells run."""


def is_terminal(stream: TextIO) -> bool:
    """Return whether a stream is a terminal in which pictures and progress bars can be drawn.

    A program that a notebook cell runs with `!` has a terminal whose cursor does not move. The
    result is False for it.
    """
    return stream.isatty() and NOTEBOOK not in os.environ


def shows_stderr_as_error() -> bool:
    """Return whether a notebook shows the stderr of this process as an error.

    This is the case in a cell of `%%sh`, unless the cell redirects stderr, for example with `exec
    2>&1`.
    """
    if NOTEBOOK not in os.environ or sys.stderr.isatty():
        return False
    errors, results = os.fstat(2), os.fstat(1)
    return stat.S_ISFIFO(errors.st_mode) and not os.path.samestat(errors, results)


@contextmanager
def progress_bar(fallback: Progress | None = None) -> Generator[Progress]:
    """Yield a progress bar below the notebook cell, or on stderr if that is a terminal.

    Otherwise yield `fallback`. The default fallback shows nothing.
    """
    if is_notebook_cell():
        with CellProgress() as cell_line:
            yield cell_line
        return
    if not is_terminal(sys.stderr):
        yield fallback or Quiet()
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.SpinnerColumn(), "{task.description}", rich.BarColumn(), "{task.fields[moved]}")
    time_columns = (rich.TimeElapsedColumn(),)
    with rich.Progress(
        *columns, *time_columns, console=Console(stderr=True), transient=True
    ) as rich_progress:
        yield TerminalProgress(rich_progress)


def log(text: str) -> None:
    """Print a line of progress to stderr. Print nothing if a notebook would show it as an error."""
    if not shows_stderr_as_error():
        print_stderr(text)


class LogProgress:
    """Progress as lines on stderr, for logs.

    One line is printed for each stage. A stage with a known size also gets a line about every ten
    seconds.
    """

    PAUSE = 10.0

    total: int | None = None
    completed = 0

    def stage(self, text: str, total: int | None = None) -> None:
        """Print the name of a stage of the work. `total` is its size in bytes, or None."""
        log(text)
        self.total, self.completed = total, 0
        self.started_at = self.shown_at = time.monotonic()

    def step(self, size: int) -> None:
        """Record that `size` more bytes are done.

        The progress is printed at most every ten seconds, and only if the stage has a known size.
        """
        self.completed += size
        now = time.monotonic()
        if self.total is not None and now - self.shown_at >= self.PAUSE:
            completed, total = self.completed / 1e6, self.total / 1e6
            rate = completed / (now - self.started_at)
            log(f"  {completed:,.0f} of {total:,.0f} MB, {rate:,.0f} MB/s")
            self.shown_at = now

    def note(self, text: str) -> None:
        """Print a note for the user on stderr."""
        print_stderr(text)


class CellProgress:
    """Progress as one line below a notebook cell, which is cleared when the `with` block ends.

    Nothing is shown during the first second.
    """

    PATIENCE, PAUSE, WIDTH = 1.0, 0.2, 20

    def __init__(self) -> None:
        self.text, self.total, self.completed = "", 0, 0
        self.shown_at = time.monotonic() + self.PATIENCE - self.PAUSE
        self.line: DisplayHandle | None = None

    def __enter__(self) -> CellProgress:
        return self

    def __exit__(self, *_: object) -> None:
        if self.line is not None:
            self.line.update({"text/plain": ""}, raw=True)

    def stage(self, text: str, total: int | None = None) -> None:
        """Show the name of a stage of the work. `total` is its size in bytes, or None."""
        self.text, self.total, self.completed = text, total or 0, 0
        self._update_line()

    def step(self, size: int) -> None:
        """Record that `size` more bytes of the stage are done, and update the line."""
        self.completed += size
        self._update_line()

    def note(self, text: str) -> None:
        """Print a note for the user on stdout, where it remains visible."""
        print_stdout(text)

    def _update_line(self) -> None:
        """Show the current stage and its progress, at most five times a second.

        A call that comes earlier changes nothing. The progress is shown if the size is known.
        """
        now = time.monotonic()
        if now - self.shown_at < self.PAUSE:
            return
        self.shown_at, text = now, printable(self.text)
        if self.total:
            full = min(self.WIDTH, self.WIDTH * self.completed // self.total)
            bar_text = "█" * full + "░" * (self.WIDTH - full)
            text += f" {bar_text} {self.completed / 1e6:,.0f} of {self.total / 1e6:,.0f} MB"
        if self.line is None:
            from IPython.display import display

            self.line = display({"text/plain": text}, raw=True, display_id=True)
        else:
            self.line.update({"text/plain": text}, raw=True)


class TerminalProgress:
    """Progress as a bar of the library rich, with the number of megabytes and the speed."""

    def __init__(self, rich: RichProgress):
        self.rich = rich
        self.task = rich.add_task("starting", total=None, moved="")

    def stage(self, text: str, total: int | None = None) -> None:
        """Show the name of a stage of the work. `total` is its size in bytes, or None."""
        # rich keeps the size of the previous stage if a task is reset without one.
        self.rich.remove_task(self.task)
        self.task = self.rich.add_task(printable(text), total=total, moved="")

    def step(self, size: int) -> None:
        """Record that `size` more bytes of the stage are done.

        The number of megabytes and the speed are shown if the size of the stage is known.
        """
        self.rich.advance(self.task, size)
        task = self.rich.tasks[0]
        if task.total is not None:
            moved = f"{task.completed / 1e6:,.1f} of {task.total / 1e6:,.1f} MB"
            speed = f", {task.speed / 1e6:,.1f} MB/s" if task.speed else ""
            self.rich.update(self.task, moved=moved + speed)

    def note(self, text: str) -> None:
        """Print a note for the user above the bar, where it remains visible."""
        self.rich.console.print(printable(text), markup=False, highlight=False)
