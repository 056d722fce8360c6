"""Where builds run: in this process, in processes beside it, or on a Dask cluster."""

import signal
import threading
from collections.abc import Generator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from queue import Queue
from typing import Any

from weights.parameters import parameter
from zoo.common.errors import BadRequest
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


class OnCluster(Executor):
    """Has Dask's workers run what is submitted.

    Dask's own executor looks at a result and then at whether there is one: a result that is lost
    with its worker between the two is a TypeError to it. Here it is computed again.
    """

    def __init__(self, client: Any):
        self.client = client

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        task = self.client.submit(fn, *args, pure=False, **kwargs)
        task.add_done_callback(partial(_pass_on, future))
        return future


def _pass_on(future: Future[Any], task: Any) -> None:
    """Give a future what became of Dask's."""
    if task.status != "cancelled" and (results := task.client.gather([task], errors="skip")):
        future.set_result(results[0])
    else:
        future.set_exception(task.exception() or CancelledError())


@contextmanager
def cluster(address: str) -> Generator[Pool]:
    """Workers of Dask, who see folders under the same paths as we do. **Raises** `BadRequest`."""
    if find_spec("distributed") is None:
        raise BadRequest(
            f"{parameter('scheduler')} {address} needs Dask: install it with `pip install "
            "distributed`."
        )
    from distributed import Client
    from distributed.scheduler import KilledWorker

    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"{parameter('scheduler')} {address} does not answer ({type(error).__name__}): give "
            "the address that `dask scheduler` prints."
        ) from error
    with client:
        # Progress inside a build stays on its worker.
        # Of a worker that leaves in an orderly way some tasks are cancelled.
        yield Pool(partial(OnCluster, client), None, lost=(KilledWorker, CancelledError))
