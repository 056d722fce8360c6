"""The workers of a Dask cluster as an executor."""

from collections.abc import Generator
from concurrent.futures import CancelledError, Executor, Future
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from typing import Any

from weights.parameters import parameter
from zoo.common.errors import BadRequest

LostWorker = tuple[type[Exception], ...]
"""The exceptions of a task whose worker died or left."""


class DaskExecutor(Executor):
    """Runs tasks on the workers of Dask.

    Dask's own executor reads a result in two steps. If a worker dies between them and takes its
    result along, the second step raises a TypeError. Here the result is computed again.
    """

    def __init__(self, client: Any):
        self.client = client

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        task = self.client.submit(fn, *args, pure=False, **kwargs)
        task.add_done_callback(partial(_copy_outcome, future))
        return future


def _copy_outcome(future: Future[Any], task: Any) -> None:
    """Give a future the result or the exception of a task of Dask."""
    if task.status != "cancelled" and (results := task.client.gather([task], errors="skip")):
        future.set_result(results[0])
    else:
        future.set_exception(task.exception() or CancelledError())


@contextmanager
def connect(address: str) -> Generator[tuple[Executor, LostWorker]]:
    """Connect to the scheduler of a Dask cluster, whose workers see files under the same paths.

    Yields the executor, and the exceptions of a task whose worker was lost. **Raises**
    `BadRequest`.
    """
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
        # Dask cancels some tasks of a worker that leaves in an orderly way.
        yield DaskExecutor(client), (KilledWorker, CancelledError)
