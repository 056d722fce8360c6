"""Commands that are stopped at the n-th thing they do to the files of a folder.

A server imports everything once and forks for each command, since an import takes longer than most
of them. `python -m tests.killed` reads a line of JSON for each: a folder, arguments, what happens
(a signal, or a disk that is full), and when; it answers with the exit status and how many things
were done to the folder's files.
"""

import errno
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

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

    def __init__(self, order: Order, told: int) -> None:
        self.order, self.told, self.count, self.struck = order, told, 0, False

    def __call__(self, event: str, arguments: tuple[object, ...]) -> None:
        if event not in WRITES or not isinstance(arguments[0], str | os.PathLike):
            return
        if not os.path.abspath(arguments[0]).startswith(self.order.folder):
            return
        if event == "open" and not int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR):
            return
        self.count += 1
        os.write(self.told, b".")
        if self.order.action == "ENOSPC":
            # Removing needs no room: the next change that does is refused.
            if self.count >= self.order.at > 0 and not self.struck and event not in REMOVALS:
                self.struck = True
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        elif self.count == self.order.at:
            os.kill(os.getpid(), getattr(signal, self.order.action))


def perform(order: Order, told: int) -> None:
    """Run the command in this process, which ends with it."""
    from zoo import cli

    os.chdir(order.folder)
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    sys.argv = ["zoo", *order.arguments]
    sys.addaudithook(Watch(order, told))
    cli.main()


def serve() -> None:
    import zoo.artifacts.build.folder
    import zoo.checkpoints.convert
    import zoo.checkpoints.golden
    import zoo.cli.golden_command
    import zoo.cli.weights_command
    import zoo.export.exporter
    import zoo.hub.pull  # noqa: F401

    for line in sys.stdin:
        order = Order(**json.loads(line))
        seen, told = os.pipe()
        child = os.fork()
        if not child:
            code = 99  # of what has a traceback
            try:
                perform(order, told)
            except SystemExit as left:
                code = int(left.code or 0)
            finally:
                os._exit(code)
        os.close(told)
        count = 0
        while piece := os.read(seen, 1000):
            count += len(piece)
        os.close(seen)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps([status, count]), flush=True)


@contextmanager
def commands(**variables: str) -> Iterator[Callable[[Order], tuple[int, int]]]:
    """The server as a function: an exit status, negative for a signal, and how many changes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.killed"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[1],
        env={**os.environ, **variables},
    )
    assert process.stdin is not None and process.stdout is not None
    asked, answers = process.stdin, process.stdout

    def run(order: Order) -> tuple[int, int]:
        print(json.dumps(asdict(order)), file=asked, flush=True)
        status, count = json.loads(answers.readline())
        return status, count

    try:
        yield run
    finally:
        process.kill()
        process.communicate()


if __name__ == "__main__":
    serve()
