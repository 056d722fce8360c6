"""How the commands talk: progress and errors on stderr, results on stdout, exit codes."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import typer

from weights.errors import WeightsError
from weights.progress import Progress
from zoo.errors import ZooError
from zoo.files.staging import discard

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress

FAILED_CHECK = 1
WRONG_USE = 2
INTERRUPTED = 130
INTERRUPTION = "interrupted; nothing unfinished was put in place"


@contextmanager
def progress_bar() -> Generator[Progress]:
    """A progress bar on stderr; only the names of the stages where that is no terminal."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeElapsedColumn(),
    )
    with RichProgress(*columns, console=Console(stderr=True), transient=True) as rich:
        yield Bar(rich)


class Lines:
    """Progress as one line a stage, and one every ten seconds of a stage that tells its size."""

    PAUSE = 10.0

    def __init__(self) -> None:
        self.total: int | None = None
        self.done = 0
        self.began = self.told = time.monotonic()

    def stage(self, text: str, total: int | None = None) -> None:
        print(text, file=sys.stderr)
        self.total, self.done = total, 0
        self.began = self.told = time.monotonic()

    def step(self, size: int) -> None:
        self.done += size
        now = time.monotonic()
        if self.total is not None and now - self.told >= self.PAUSE:
            rate = self.done / (now - self.began)
            print(
                f"  {self.done / 1e6:,.0f} of {self.total / 1e6:,.0f} MB, {rate / 1e6:,.0f} MB/s",
                file=sys.stderr,
            )
            self.told = now


class Bar:
    """Progress as a bar of rich's."""

    def __init__(self, rich: RichProgress):
        self.rich = rich
        self.task = rich.add_task("starting", total=None)

    def stage(self, text: str, total: int | None = None) -> None:
        self.rich.reset(self.task, description=text, total=total)

    def step(self, size: int) -> None:
        self.rich.advance(self.task, size)


def run(app: typer.Typer, name: str | None = None) -> None:
    """Run the command line that this process was started with, and leave with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.exit(call(app, sys.argv[1:], name))


def call(app: typer.Typer, arguments: Sequence[str], name: str | None = None) -> int:
    """Run a command; its exit code.

    Wrong use gives one sentence on stderr and 2, a failed check 1; everything else that is
    raised is a mistake of ours and keeps its traceback.
    """
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except (ZooError, WeightsError) as error:
        return _complain(str(error))
    except typer.TyperException as error:
        message = error.format_message()
        return _complain(message if message.endswith((".", "?")) else f"{message}.")
    except typer.Abort:
        print(INTERRUPTION, file=sys.stderr)
        return INTERRUPTED


def help_alone(context: typer.Context) -> None:
    """Show the help of a group of commands where none of them was named."""
    if context.invoked_subcommand is None:
        print(context.get_help())


def print_json(value: object) -> None:
    """Print what `--json` asks for: one document, with an object for each dataclass."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=_plain))


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else vars(value)


def warn_nonfinite(names: Sequence[str]) -> None:
    """Name the tensors that hold a NaN or an infinity."""
    if names:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        shown = ", ".join(names[:10])
        print(f"warning: NaN or infinite values in {shown}{more}", file=sys.stderr)


def _complain(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)
    return WRONG_USE


def stop(number: int, frame: FrameType | None) -> None:
    """Leave at once, with what is staged removed and the workers told to do the same."""
    # Raising here is not enough: an exception that arrives inside a destructor is dropped.
    for child in multiprocessing.active_children():
        child.terminate()
    discard()
    if number == signal.SIGINT:
        print(INTERRUPTION, file=sys.stderr, flush=True)
    os._exit(128 + number)
