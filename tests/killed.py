"""Run commands that are watched, and that are stopped at the n-th change of the files of a folder.

A server imports everything once and forks a process for each command, because an import takes
longer than most commands. A command has the rights of the owner of its files, even if root runs the
tests.
"""

import ctypes
import errno
import os
import resource
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, forkserver, get_context
from typing import NamedTuple
from unittest import mock

PRELOADED = (
    *(
        "pytest",
        "zoo.export.assemble.folder",
        "zoo.checkpoints.convert",
        "zoo.checkpoints.golden",
    ),
    *(
        "zoo.cli.golden_command",
        "zoo.cli.weights_command",
        "zoo.export.exporter",
        "zoo.artifacts.pull",
    ),
)
REMOVALS = {"os.remove", "os.rmdir"}
WRITES = REMOVALS | {"os.rename", "os.mkdir", "os.truncate", "os.utime", "open"}

STOPPED = {"SIGKILL": -9, "SIGTERM": 143, "SIGINT": 130, "ENOSPC": 2}
"""What happens to a command at the chosen change, and its exit status."""


@dataclass(frozen=True)
class Order:
    """A command, and the change of the folder's files at which it is stopped; 0 means never.

    If the first argument is `-c`, the second is a Python program and the others are its `sys.argv`.
    The command prints to `output`.out and `output`.err if `output` is not empty. `limits` are
    limits of `resource` and their values. After `seconds` the command is killed.
    """

    folder: str
    arguments: list[str]
    action: str = "SIGKILL"
    at: int = 0
    output: str = ""
    limits: tuple[tuple[int, int], ...] = ()
    seconds: float = 300


class Outcome(NamedTuple):
    """The result of a command: its exit status, which is negative for a signal, the number of
    changes in the folder, and the time and memory that it took."""

    status: int
    changes: int
    seconds: float
    megabytes: float


class Watch:
    """An audit hook that counts changes of a folder's files, and stops the command at the chosen
    one."""

    def __init__(self, order: Order, sender: connection.Connection) -> None:
        self.order, self.sender, self.count, self.has_failed = order, sender, 0, False
        self.lock = threading.RLock()  # a handler of a signal may change files as well

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in WRITES or not isinstance(arguments[0], str | os.PathLike):
            return
        if not os.path.abspath(arguments[0]).startswith(self.order.folder):
            return
        if event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR):
            return
        with self.lock:
            self.change(event)

    def change(self, event: str) -> None:
        """Count a change. The lock keeps other threads from counting meanwhile, so that the chosen
        number is met."""
        self.count += 1
        self.sender.send(None)
        if self.order.action == "ENOSPC":
            # Removing a file needs no space on the disk, so the next change that does fails.
            if self.count >= self.order.at > 0 and not self.has_failed and event not in REMOVALS:
                self.has_failed = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.order.at:
            os.kill(os.getpid(), getattr(signal, self.order.action))


CAPABILITIES = 0x20080522
"""The version of the structures that Linux's `capset` takes."""


def give_up_privileges() -> None:
    """Give up root's capabilities, so that file permissions apply to root too. Root stays the owner
    of its files."""
    if sys.platform == "linux" and os.geteuid() == 0:
        header, no_capabilities = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, no_capabilities) == 0


def perform(order: Order, sender: connection.Connection) -> None:
    """Run the command in this process, and end the process with it."""
    from zoo import cli

    os.chdir(order.folder)
    for number, kind in ((1, ".out"), (2, ".err")):
        path = order.output + kind if order.output else os.devnull
        with open(path, "wb") as file:
            os.dup2(file.fileno(), number)
    give_up_privileges()
    for limit, number in order.limits:
        resource.setrlimit(limit, (number, number))
    sys.argv = ["zoo", *order.arguments]
    code = 99  # of a command that ends with a traceback
    try:
        sys.addaudithook(Watch(order, sender))
        if order.arguments[0] == "-c":
            sys.argv = order.arguments
            exec(order.arguments[1], {})
            code = 0
        else:
            cli.main()
    except SystemExit as exit_request:
        code = int(exit_request.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sender.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        os._exit(code)


OFF = {"ORT_DISABLE_TELEMETRY": "1"}
"""Variables that keep ONNX Runtime from opening its telemetry database. Commands set them before
they import it, but the server imports it once."""


@contextmanager
def commands(**variables: str) -> Iterator[Callable[[Order], Outcome]]:
    """Start the server. The block receives a function that runs a command."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))

    def run(order: Order) -> Outcome:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=perform, args=(order, sender))
        start = time.monotonic()
        process.start()
        sender.close()
        count, megabytes = 0, 0.0
        try:
            while receiver.poll(order.seconds - time.monotonic() + start):
                message = receiver.recv()
                count += message is None
                megabytes = message or megabytes
            process.kill()
        except EOFError:
            pass
        process.join()
        assert process.exitcode is not None
        return Outcome(process.exitcode, count, time.monotonic() - start, megabytes)

    with mock.patch.dict(os.environ, variables | OFF):
        forkserver.ensure_running()  # modules read the variables when they are imported
        yield run
