"""How the commands talk: errors on stderr, results on stdout, exit codes."""

import errno
import gc
import math
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import typer

from weights.errors import Sentence, WeightsError
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import Choice, GivenCheckpoint
from zoo.common.errors import WRONG_USE, ZooError
from zoo.common.progress import Lines, bar
from zoo.common.staging import INTERRUPTION, stop
from zoo.common.terminal import complain, leave_closed, say, say_json, survive
from zoo.registry.lookup import registered_name

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.cli.tables import Block

INTERRUPTED = 130

LEAST_ADDRESSES = 2 << 30
"""What importing JAX and running a small model reserves on two cores, and a fifth more."""

T = TypeVar("T")


def progress_bar() -> AbstractContextManager[Progress]:
    """A progress bar on stderr, or a line a stage where that is no terminal."""
    return bar(elsewhere=Lines())


def tell_recognised(asked: GivenCheckpoint) -> tuple[ModelInfo, Choice]:
    """Whatever network is in a checkpoint, which is open now, and say so."""
    entry, opened = find_entry(None, asked)
    complain(f"{asked.path} is {registered_name(entry)}: {entry.config.text}")
    return entry, opened


def run_command_line(app: typer.Typer, name: str | None = None) -> None:
    """Run the command line that this process was started with, and leave with its exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    # The official packages of ONNX Runtime number the machine and report sessions to Microsoft.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # A trace is a million objects, all of which stay: looking through them again and again for
    # some that do not takes a fifth of a conversion.
    gc.set_threshold(100_000, 50, 100)
    survive()
    sys.exit(call(app, sys.argv[1:], name))


def call(app: typer.Typer, arguments: Sequence[str], name: str | None = None) -> int:
    """Run a command; its exit code.

    Wrong use, a file that cannot be read or written and a machine without memory give one sentence
    on stderr and 2, a failed check 1; everything else that is raised is a mistake of ours and keeps
    its traceback.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        return _complain("the current folder was removed: go to another one.")
    if (limit := _address_space()) < LEAST_ADDRESSES:
        return _complain(
            f"this process may use {limit / 1e6:.0f} MB of addresses, and JAX needs "
            f"{LEAST_ADDRESSES / 1e6:.0f}: raise the limit (`ulimit -v`)."
        )
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except (ZooError, WeightsError) as error:
        return _complain(str(error))
    except OSError as error:
        trouble = error.strerror or type(error).__name__
        if error.filename is not None:
            return _complain(f"{error.filename} cannot be used ({trouble}): choose another path.")
        if error.errno != errno.ENOSPC:
            return _complain(
                f"the system refuses what this command needs ({trouble}): allow it that."
            )
        leave_closed(sys.stdout)
        return _complain("stdout takes nothing more, for its disk is full: make room there.")
    except typer.TyperException as error:
        # pydantic, which checks values for Typer, begins some of its sentences so.
        message = error.format_message().replace(": Value error, ", ": ")
        return _complain(message if message.endswith((".", "?")) else f"{message}.")
    except typer.Abort:
        complain(INTERRUPTION)
        return INTERRUPTED
    except _of_the_machine() as error:
        if not isinstance(error, MemoryError) and not EXHAUSTED.search(str(error)):
            raise
        return _complain(
            "the memory of this machine (or the limit set for this process) is used up, and what "
            "was being made was not written: end other programs, or take a smaller model, image "
            "or batch."
        )


def _address_space() -> float:
    """The bytes of addresses that this process may use."""
    if sys.platform == "win32":
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


EXHAUSTED = re.compile("RESOURCE_EXHAUSTED|bad_alloc|Failed to allocate memory")
"""What XLA and ONNX Runtime say where there is no memory."""


def _of_the_machine() -> tuple[type[Exception], ...]:
    """What libraries raise; ONNX Runtime's errors, if it is loaded at all."""
    if "onnxruntime" not in sys.modules:
        return MemoryError, RuntimeError
    from zoo.common.runtime import ERRORS

    return ERRORS


def help_alone(context: typer.Context) -> None:
    """Show the help of a group of commands where none of them was named."""
    if context.invoked_subcommand is None:
        say(context.get_help())


@dataclass(frozen=True)
class CommandResult(Generic[T]):
    """What a command found, how it is printed, and the exit code of the command.

    `blocks` are for people, `record` makes the document that `--json` prints.
    """

    value: T
    blocks: "Callable[[T], Iterable[Block]]"
    record: Callable[[T], object] = lambda value: value
    code: int = 0

    def show(self, as_json: bool) -> int:
        """Print it, and return the exit code."""
        if as_json:
            print_json(self.record(self.value))
        else:
            from zoo.cli.tables import print_blocks

            print_blocks(self.blocks(self.value))
        return self.code


def print_json(value: object) -> None:
    """Print what `--json` asks for: one document, with an object for each dataclass."""
    say_json(value, _plain)


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return vars(value)
    from zoo.artifacts.read import to_json_fields

    return to_json_fields(value)


def print_picture(picture: "Image") -> None:
    """Print in the terminal, in half blocks if it shows no images; not without the extra
    `[terminal]`."""
    import logging

    from rich.console import Console

    try:
        from textual_image.renderable import Image as Shown
    except ModuleNotFoundError:
        return

    # It warns, at length, of a terminal that does not say how large its letters are.
    logging.getLogger("textual_image").setLevel(logging.CRITICAL)
    if 0 in os.get_terminal_size(sys.stdout.fileno()):
        return  # one that nobody looks at, such as that of a container
    Console().print(Shown(picture, width="100%", height="auto"))


def warn_nonfinite(names: Sequence[str]) -> None:
    """Name the tensors that hold a NaN or an infinity."""
    if names:
        more = f" and {len(names) - 10} more" if len(names) > 10 else ""
        shown = ", ".join(names[:10])
        complain(f"warning: NaN or infinite values in {shown}{more}")


def _complain(message: str) -> int:
    complain(f"error: {Sentence(message)}")
    return WRONG_USE
