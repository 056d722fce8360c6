"""Where builds run: in this process, or in a pool of processes."""

import signal
import threading
from collections.abc import Generator
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import contextmanager
from functools import partial
from queue import Queue
from typing import Any

from zoo.common.processes import fresh, workers
from zoo.common.staging import stop
from zoo.export.assemble.plan import FolderPlan
from zoo.export.assemble.schedule import Pool, Told


class Here(Executor):
    """Runs what is submitted at once, in this process: one build after the other."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def processes(jobs: int, tell: Told) -> Generator[Pool]:
    """Pool of so many processes, a fresh one for each build: what a build allocates is gone after
    it."""
    with fresh() as context, context.Manager() as manager:
        queue = manager.Queue()
        listener = threading.Thread(target=_listen, args=(queue, tell), daemon=True)
        listener.start()
        open = partial(workers, context, jobs, _prepare, max_tasks_per_child=1)
        yield Pool(open, partial(_send, queue), lost=(BrokenExecutor,))
        queue.put(None)
        listener.join()


def _send(queue: Queue[tuple[FolderPlan, str] | None], plan: FolderPlan, text: str) -> None:
    queue.put((plan, text))


def _listen(queue: Queue[tuple[FolderPlan, str] | None], tell: Told) -> None:
    while (item := queue.get()) is not None:
        tell(*item)


def _prepare() -> None:
    """A worker that is told to stop removes what it has staged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent decides
    signal.signal(signal.SIGTERM, stop)
