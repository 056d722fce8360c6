"""Commands that are watched, and stopped at the n-th thing they do to the files of a folder.

A server imports everything once and forks for each command, since an import takes longer than most
of them. A command has no more rights than the owner of its files, whoever runs the tests.
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
"""What happens at a change of the files, and the exit status after it."""


@dataclass(frozen=True)
class Order:
    """A command, and at which change of the folder's files it is stopped; 0 is never.

    After `-c` there is a program instead, with its arguments in `sys.argv`.
    What it prints goes to `output`.out and `output`.err, if that is given. `limits` are numbers of
    `resource` and what they are set to. After so many seconds it is killed.
    """

    folder: str
    arguments: list[str]
    action: str = "SIGKILL"
    at: int = 0
    output: str = ""
    limits: tuple[tuple[int, int], ...] = ()
    seconds: float = 300


class Outcome(NamedTuple):
    """An exit status, negative for a signal, and what the command did to the folder and took."""

    status: int
    changes: int
    seconds: float
    megabytes: float


class Watch:
    """Counts what happens to the files of a folder, and strikes."""

    def __init__(self, order: Order, told: connection.Connection) -> None:
        self.order, self.told, self.count, self.struck = order, told, 0, False
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
        """Count one, which no other thread does meanwhile, so that the wanted one is met."""
        self.count += 1
        self.told.send(None)
        if self.order.action == "ENOSPC":
            # Removing needs no room: the next change that does is refused.
            if self.count >= self.order.at > 0 and not self.struck and event not in REMOVALS:
                self.struck = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.order.at:
            os.kill(os.getpid(), getattr(signal, self.order.action))


CAPABILITIES = 0x20080522
"""The version of the structures that Linux's `capset` takes."""


def give_up_privileges() -> None:
    """Let permissions hold for root, too; its own files stay its own."""
    if sys.platform == "linux" and os.geteuid() == 0:
        header, none = (ctypes.c_uint32 * 2)(CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
        assert ctypes.CDLL(None).capset(header, none) == 0


def perform(order: Order, told: connection.Connection) -> None:
    """Run the command in this process, which ends with it."""
    from zoo import cli

    os.chdir(order.folder)
    for number, kind in ((1, ".out"), (2, ".err")):
        place = order.output + kind if order.output else os.devnull
        with open(place, "wb") as file:
            os.dup2(file.fileno(), number)
    give_up_privileges()
    for limit, number in order.limits:
        resource.setrlimit(limit, (number, number))
    sys.argv = ["zoo", *order.arguments]
    code = 99  # of what has a traceback
    try:
        sys.addaudithook(Watch(order, told))
        if order.arguments[0] == "-c":
            sys.argv = order.arguments
            exec(order.arguments[1], {})
            code = 0
        else:
            cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        told.send(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
        os._exit(code)


OFF = {"ORT_DISABLE_TELEMETRY": "1"}
"""As commands do, before ONNX Runtime is imported, which would keep a data base open."""


@contextmanager
def commands(**variables: str) -> Iterator[Callable[[Order], Outcome]]:
    """A function that runs one."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))

    def run(order: Order) -> Outcome:
        seen, told = context.Pipe(duplex=False)
        process = context.Process(target=perform, args=(order, told))
        start = time.monotonic()
        process.start()
        told.close()
        count, megabytes = 0, 0.0
        try:
            while seen.poll(order.seconds - time.monotonic() + start):
                said = seen.recv()
                count += said is None
                megabytes = said or megabytes
            process.kill()
        except EOFError:
            pass
        process.join()
        assert process.exitcode is not None
        return Outcome(process.exitcode, count, time.monotonic() - start, megabytes)

    with mock.patch.dict(os.environ, variables | OFF):
        forkserver.ensure_running()  # the variables are read where modules are imported
        yield run
