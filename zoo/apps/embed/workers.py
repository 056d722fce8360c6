"""Workers of a run: threads of this process, or the workers of a Dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from weights.parameters import parameter
from zoo.apps.embed.chunks import ChunkWorker, Recipe, Task
from zoo.apps.embed.dataset import ChunkResult
from zoo.apps.embed.network import FoundNetwork, Runner, find_network, lane_session
from zoo.common.errors import BadFile, BadOutput, BadRequest

if TYPE_CHECKING:
    from zoo.common.runtime import Session

CHUNKS = 2
"""Chunks that this process works on at once: one starts while the last pictures of another run."""

AHEAD = 2048
"""Chunks that a scheduler knows of; each takes it some kilobytes."""

TRIES = 5
"""Times that a chunk is submitted whose workers die."""


@dataclass(frozen=True)
class Workers:
    """Function that submits a task, and the number of tasks that are submitted at once.

    `lost` are the errors of a task whose worker died.
    """

    submit: Callable[[Task], Future[ChunkResult]]
    ahead: int
    lost: tuple[type[BaseException], ...] = ()


def run_chunks(
    tasks: Iterator[Task], workers: Workers, settle: Callable[[list[ChunkResult]], None]
) -> None:
    """Run all tasks, and call `settle` with the results that are there, as soon as there are some.

    **Raises** the error of a task, or `BadOutput` if the workers of one died several times.
    """
    running = dict[Future[ChunkResult], tuple[Task, int]]()
    done = SimpleQueue[Future[ChunkResult]]()

    def submit(task: Task, tries: int) -> None:
        future = workers.submit(task)
        running[future] = task, tries
        future.add_done_callback(done.put)

    while True:
        for task in islice(tasks, workers.ahead - len(running)):
            submit(task, 1)
        if not running:
            return
        finished, results = [done.get()], list[ChunkResult]()
        while not done.empty():
            finished.append(done.get())
        for future in finished:
            task, tries = running.pop(future)
            try:
                results.append(future.result())
            except workers.lost as error:
                if tries == TRIES:
                    raise BadOutput(
                        f"the workers of a chunk died {TRIES} times, perhaps for want of memory: "
                        "give them more, or fewer threads."
                    ) from error
                submit(task, tries + 1)
        settle(results)


@contextmanager
def local_workers(
    recipe: Recipe, threads: int | None, report: Callable[[int, int], None]
) -> Generator[Workers]:
    """Threads of this process: one run of the network per core. **Raises** `BadFile`."""
    network = _same_network(recipe)
    runner = Runner(network, lane_session(network.path), threads or _core_count())
    worker = ChunkWorker(recipe, runner, report)
    with ThreadPoolExecutor(CHUNKS) as executor:
        try:
            # One more, so that a thread has work while results are committed.
            yield Workers(lambda task: executor.submit(worker.run, task), CHUNKS + 1)
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
            worker.stop()


def _core_count() -> int:
    """Return the number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def cluster_workers(address: str, recipe: Recipe) -> Generator[Workers]:
    """Workers of Dask, which see files under the same paths as this process. **Raises**
    `BadRequest`."""
    with dask_submit(address) as (submit, lost):
        yield Workers(partial(submit, run_on_cluster, recipe), AHEAD, lost)


@contextmanager
def dask_submit(
    address: str,
) -> Generator[tuple[Callable[..., Future[Any]], tuple[type[BaseException], ...]]]:
    """Function that submits a call to a Dask cluster, and the errors of a lost worker."""
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

    def submit(function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        task = client.submit(function, *arguments, pure=False)
        task.add_done_callback(partial(_pass_on, future))
        return future

    with client:
        # Some tasks of a worker that leaves in an orderly way are cancelled.
        yield submit, (KilledWorker, CancelledError)


def _pass_on(future: Future[Any], task: Any) -> None:
    """Give a future the result of Dask's, which may be lost with its worker at any moment."""
    if task.status != "cancelled" and (results := task.client.gather([task], errors="skip")):
        future.set_result(results[0])
    else:
        future.set_exception(task.exception() or CancelledError())


def run_on_cluster(recipe: Recipe, task: Task) -> ChunkResult:
    """Run a task in a worker of a cluster, on one thread of the network."""
    network = _same_network(recipe)
    worker = ChunkWorker(recipe, Runner(network, _kept_session(network.path, network.digest), 1))
    try:
        return worker.run(task)
    finally:
        worker.stop()


@lru_cache(1)
def _kept_session(path: Path, digest: str) -> Session:
    return lane_session(path)


def _same_network(recipe: Recipe) -> FoundNetwork:
    """Find the network of a recipe. **Raises** `BadFile` if it is another file here."""
    network = find_network(recipe.model, recipe.request.precision)
    if network.digest != recipe.digest:
        raise BadFile(
            f"{network.path} is another file here than where the work was begun: give all machines "
            "one folder."
        )
    return network
