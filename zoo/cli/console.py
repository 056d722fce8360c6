"""How the commands talk: errors on stderr, results on stdout, exit codes."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import FrameType

import typer

from weights.errors import WeightsError
from weights.progress import Progress
from zoo.errors import ZooError
from zoo.files.staging import discard
from zoo.progress import Lines, bar

FAILED_CHECK = 1
WRONG_USE = 2
INTERRUPTED = 130
INTERRUPTION = "interrupted; nothing unfinished was put in place"


def progress_bar() -> AbstractContextManager[Progress]:
    """A progress bar on stderr, or a line a stage where that is no terminal."""
    return bar(elsewhere=Lines())


def run(app: typer.Typer) -> None:
    """Run a command line and leave the process with its exit code.

    Wrong use gives one sentence on stderr and 2, a failed check 1; everything else that is
    raised is a mistake of ours and keeps its traceback.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    try:
        code = app(spread(sys.argv[1:]), standalone_mode=False)
    except (ZooError, WeightsError) as error:
        code = _complain(str(error))
    except typer.TyperException as error:
        code = _complain(error.format_message())
    except typer.Abort:
        print(INTERRUPTION, file=sys.stderr)
        code = INTERRUPTED
    sys.exit(code)


def spread(arguments: Sequence[str]) -> list[str]:
    """``--opset 18 23`` as ``--opset 18 --opset 23``: the option takes any number of values."""
    result: list[str] = []
    for argument in arguments:
        if argument.isdigit() and len(result) > 1 and result[-1].isdigit():
            result += ["--opset"] if result[-2] == "--opset" else []
        result.append(argument)
    return result


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
