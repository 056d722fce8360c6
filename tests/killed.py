"""Commands that are stopped at the n-th thing they do to the files of a folder.

A server imports everything once and forks for each command, since an import takes longer than most
of them.
"""

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import connection, forkserver, get_context
from unittest import mock

PRELOADED = (
    *("pytest", "zoo.artifacts.build.folder", "zoo.checkpoints.convert", "zoo.checkpoints.golden"),
    *("zoo.cli.golden_command", "zoo.cli.weights_command", "zoo.export.exporter", "zoo.hub.pull"),
)
REMOVALS = {"os.remove", "os.rmdir"}
WRITES = REMOVALS | {"os.rename", "os.mkdir", "os.truncate", "os.utime", "open"}


@dataclass(frozen=True)
class Order:
    """A command, and at which change of the folder's files it is stopped; 0 is never."""

    folder: str
    arguments: list[str]
    action: str = "SIGKILL"
    at: int = 0


class Watch:
    """Counts what happens to the files of a folder, and strikes."""

    def __init__(self, order: Order, told: connection.Connection) -> None:
        self.order, self.told, self.count, self.struck = order, told, 0, False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in WRITES or not isinstance(arguments[0], str | os.PathLike):
            return
        if not os.path.abspath(arguments[0]).startswith(self.order.folder):
            return
        if event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR):
            return
        self.count += 1
        self.told.send(None)
        if self.order.action == "ENOSPC":
            # Removing needs no room: the next change that does is refused.
            if self.count >= self.order.at > 0 and not self.struck and event not in REMOVALS:
                self.struck = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.order.at:
            os.kill(os.getpid(), getattr(signal, self.order.action))


def perform(order: Order, told: connection.Connection) -> None:
    """Run the command in this process, which ends with it."""
    from zoo import cli

    os.chdir(order.folder)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.argv = ["zoo", *order.arguments]
    code = 99  # of what has a traceback
    try:
        sys.addaudithook(Watch(order, told))
        cli.main()
    except SystemExit as left:
        code = int(left.code or 0)
    finally:
        os._exit(code)


@contextmanager
def commands(**variables: str) -> Iterator[Callable[[Order], tuple[int, int]]]:
    """A function that runs one: an exit status, negative for a signal, and how many changes."""
    context = get_context("forkserver")
    context.set_forkserver_preload(list(PRELOADED))

    def run(order: Order) -> tuple[int, int]:
        seen, told = context.Pipe(duplex=False)
        process = context.Process(target=perform, args=(order, told))
        process.start()
        told.close()
        count = 0
        try:
            while True:
                seen.recv()
                count += 1
        except EOFError:
            process.join()
        assert process.exitcode is not None
        return process.exitcode, count

    with mock.patch.dict(os.environ, variables):
        forkserver.ensure_running()  # the variables are read where modules are imported
        yield run
