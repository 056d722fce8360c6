"""Run a command line: print results on stdout and errors on stderr, and choose the exit code."""

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
from zoo.checkpoints.source import GivenCheckpoint, WeightsChoice
from zoo.common.errors import WRONG_USE, ZooError
from zoo.common.progress import LogProgress, progress_bar
from zoo.common.staging import INTERRUPTION, handle_stop_signal
from zoo.common.terminal import (
    make_streams_tolerant,
    print_json_stdout,
    print_stderr,
    print_stdout,
    redirect_to_null_device,
)
from zoo.registry.lookup import registered_name

if TYPE_CHECKING:
    from PIL.Image import Image

    from zoo.cli.tables import Block

INTERRUPTED = 130

MIN_ADDRESS_SPACE = 2 << 30
"""The address space in bytes that JAX and a small model reserve on two cores, plus 20 %."""

T = TypeVar("T")


def command_progress() -> AbstractContextManager[Progress]:
    """Return a progress bar on stderr. If stderr is no terminal, progress is printed as lines."""
    return progress_bar(fallback=LogProgress())


def announce_checkpoint(checkpoint: GivenCheckpoint) -> tuple[ModelInfo, WeightsChoice]:
    """Recognise the model that a checkpoint belongs to, and print its name on stderr.

    Return the entry of the model and the opened checkpoint.
    """
    entry, opened = find_entry(None, checkpoint)
    print_stderr(f"{checkpoint.path} is {registered_name(entry)}: {entry.config.description}")
    return entry, opened


def run_command_line(app: typer.Typer, name: str | None = None) -> None:
    """Run the command of this process's arguments, and exit with its code.

    `name` is the name of the program in its help. Signals, telemetry, garbage collection and output
    streams are configured first.
    """
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle_stop_signal)
    # The official packages of ONNX Runtime send telemetry of every session to Microsoft.
    os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
    # A trace creates a million objects that all stay in use. With the default thresholds the
    # garbage collector scans them so often that it takes a fifth of the time of a conversion.
    gc.set_threshold(100_000, 50, 100)
    make_streams_tolerant()
    sys.exit(run_command(app, sys.argv[1:], name))


def run_command(app: typer.Typer, arguments: Sequence[str], name: str | None = None) -> int:
    """Run a command with these arguments and return its exit code.

    The exit code is 2 and one sentence is printed to stderr if the command is used in a wrong way,
    if a file cannot be read or written, or if the memory is exhausted. It is 1 if a check failed,
    and 130 if the command was interrupted. Every other exception is a bug and is raised with its
    traceback. `name` is the name of the program in its help.
    """
    try:
        os.getcwd()
    except FileNotFoundError:
        return _print_error("the current folder was removed: change to another folder.")
    if (limit := _address_space()) < MIN_ADDRESS_SPACE:
        return _print_error(
            f"this process may use {limit / 1e6:.0f} MB of addresses, and JAX needs "
            f"{MIN_ADDRESS_SPACE / 1e6:.0f}: raise the limit (`ulimit -v`)."
        )
    try:
        return app(list(arguments), prog_name=name, standalone_mode=False) or 0
    except (ZooError, WeightsError) as error:
        return _print_error(str(error))
    except OSError as error:
        reason = error.strerror or type(error).__name__
        if error.filename is not None:
            return _print_error(f"{error.filename} cannot be used ({reason}): choose another path.")
        if error.errno != errno.ENOSPC:
            return _print_error(
                f"the operating system refused an operation of this command ({reason}): check "
                "its limits and permissions."
            )
        redirect_to_null_device(sys.stdout)
        return _print_error("stdout cannot be written, because its disk is full: free space there.")
    except typer.TyperException as error:
        # Typer validates values with pydantic, which adds this prefix to its messages.
        message = error.format_message().replace(": Value error, ", ": ")
        return _print_error(message if message.endswith((".", "?")) else f"{message}.")
    except typer.Abort:
        print_stderr(INTERRUPTION)
        return INTERRUPTED
    except _memory_exceptions() as error:
        if not isinstance(error, MemoryError) and not EXHAUSTED.search(str(error)):
            raise
        return _print_error(
            "the memory of this machine, or the limit of this process, is exhausted, and the "
            "output was not written: close other programs, or use a smaller model, image or batch."
        )


def _address_space() -> float:
    """Return the limit of this process's address space in bytes, or infinity if there is none."""
    if sys.platform == "win32":
        return math.inf
    import resource

    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return math.inf if limit == resource.RLIM_INFINITY else limit


EXHAUSTED = re.compile("RESOURCE_EXHAUSTED|bad_alloc|Failed to allocate memory")
"""The pattern of messages of XLA and ONNX Runtime about exhausted memory."""


def _memory_exceptions() -> tuple[type[Exception], ...]:
    """Return the types of exceptions that JAX and ONNX Runtime raise if memory is exhausted.

    They raise the same types for other reasons too, so the message has to be compared.
    """
    if "onnxruntime" not in sys.modules:
        return MemoryError, RuntimeError
    from zoo.common.runtime import ERRORS

    return ERRORS


def show_group_help(context: typer.Context) -> None:
    """Print the help of a group of commands if the user named no command of the group."""
    if context.invoked_subcommand is None:
        print_stdout(context.get_help())


@dataclass(frozen=True)
class CommandResult(Generic[T]):
    """The result of a command, with the functions that present it.

    - `value`: the result.
    - `blocks`: returns the texts and tables that are printed for people.
    - `record`: returns the value that `--json` prints.
    - `code`: the exit code of the command.
    """

    value: T
    blocks: "Callable[[T], Iterable[Block]]"
    record: Callable[[T], object] = lambda value: value
    code: int = 0

    def show(self, as_json: bool) -> int:
        """Print the result, as JSON or as texts and tables, and return the exit code."""
        if as_json:
            print_json(self.record(self.value))
        else:
            from zoo.cli.tables import print_blocks

            print_blocks(self.blocks(self.value))
        return self.code


def print_json(value: object) -> None:
    """Print a value to stdout as one JSON document.

    Paths become strings. Dataclasses and parts of manifests become objects.
    """
    print_json_stdout(value, _to_json_value)


def _to_json_value(value: object) -> object:
    """Return a path as a string, and a dataclass or a part of a manifest as a dictionary.

    This is the `default` of `json.dumps`. **Raises** `TypeError` for a value of any other type.
    """
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value):
        return vars(value)
    from zoo.artifacts.read import to_json_fields

    return to_json_fields(value)


def print_picture(picture: "Image") -> None:
    """Show a picture in the terminal, at the width of the terminal.

    stdout must be a terminal. The picture is drawn with half blocks of colour if the terminal does
    not support images. Nothing is shown if the extra `[terminal]` is not installed, or if the
    terminal has no size.
    """
    import logging

    from rich.console import Console

    try:
        from textual_image.renderable import Image as TerminalImage
    except ModuleNotFoundError:
        return

    # It logs a long warning if the terminal does not report the size of its letters.
    logging.getLogger("textual_image").setLevel(logging.CRITICAL)
    if 0 in os.get_terminal_size(sys.stdout.fileno()):
        return  # a terminal that nobody watches, such as that of a container
    Console().print(TerminalImage(picture, width="100%", height="auto"))


def warn_nonfinite(names: Sequence[str]) -> None:
    """Print a warning on stderr that tensors contain NaN or infinite values.

    `names` are the names of the tensors, of which at most ten are printed. Nothing is printed if
    there are none.
    """
    if names:
        omitted = f" and {len(names) - 10} more" if len(names) > 10 else ""
        first_names = ", ".join(names[:10])
        print_stderr(f"warning: NaN or infinite values in {first_names}{omitted}")


def _print_error(message: str) -> int:
    """Print an error message on stderr, and return 2, the exit code for wrong use."""
    print_stderr(f"error: {Sentence(message)}")
    return WRONG_USE
