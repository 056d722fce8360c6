"""Run the tasks of a job in threads of this process, or on the workers of a Dask cluster."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import lru_cache
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weights.parameters import parameter
from zoo.apps.embed.chunks import ChunkWorker, Task
from zoo.apps.embed.dataset import ChunkResult, Dataset
from zoo.apps.embed.network import Runner, find_network, lane_session
from zoo.common.errors import BadFile, BadOutput, BadRequest

if TYPE_CHECKING:
    from zoo.common.runtime import Session

CHUNKS = 2
"""The number of chunks that this process works on at the same time: one starts while the last
pictures of another are in progress."""

AHEAD = 2048
"""The number of tasks that a scheduler has at the same time; each takes it some kilobytes."""


HandleResults = Callable[[list[ChunkResult]], None]
"""A function that is called with results as soon as there are some."""


def run_locally(worker: ChunkWorker, tasks: Iterator[Task], handle_results: HandleResults) -> None:
    """Run all tasks with a worker in this process, and stop the worker.

    **Raises** the error of a task.
    """
    executor, running = ThreadPoolExecutor(CHUNKS), set[Future[ChunkResult]]()
    try:
        while True:
            # One task more waits, so that a thread has work while results are committed.
            for task in islice(tasks, CHUNKS + 1 - len(running)):
                running.add(executor.submit(worker.run, task))
            if not running:
                return
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            handle_results([future.result() for future in finished])
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        worker.stop()
        _open_session.cache_clear()


def run_on_cluster(
    address: str,
    function: Callable[[Any], ChunkResult],
    tasks: Iterator[Any],
    handle_results: HandleResults,
) -> None:
    """Run a function on all tasks, on the workers of the Dask scheduler at an address.

    The workers see files under the same paths as this process. Dask gives the task of a worker
    that dies to another worker.

    **Raises** `BadRequest` if Dask is not installed or the scheduler does not answer, `BadOutput`
    if too many workers of a task died, or the error of a task.
    """
    if find_spec("distributed") is None:
        raise BadRequest(
            f"{parameter('scheduler')} {address} needs Dask: install it with `pip install "
            "distributed`."
        )
    from distributed import Client, as_completed
    from distributed.scheduler import KilledWorker

    try:
        client = Client(address, timeout="10s", set_as_default=False)
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"{parameter('scheduler')} {address} does not answer ({type(error).__name__}): give "
            "the address that `dask scheduler` prints."
        ) from error
    with client:
        completed = as_completed(loop=client.loop)
        completed.update(client.map(function, list(islice(tasks, AHEAD)), pure=False))
        for futures in completed.batches():
            try:
                handle_results(client.gather(futures))
            except KilledWorker as error:
                raise BadOutput(
                    "too many workers of a chunk died, perhaps for want of memory: give them more, "
                    "or fewer threads."
                ) from error
            further = list(islice(tasks, len(futures)))
            completed.update(client.map(function, further, pure=False))


def make_worker(
    out: Path,
    column: str,
    lanes: int | None = None,
    report: Callable[[int, int], None] = lambda *_: None,
) -> ChunkWorker:
    """Return a worker that fills a column of the dataset at a path, which describes its network.

    **Arguments:** `lanes` is the number of runs of the network at the same time; None is the
    number of cores that this process may use. `report` is as for `ChunkWorker`.
    **Raises** `BadFile` if the file of the network is another one on this machine.
    """
    dataset = Dataset.open(out)
    assert dataset is not None
    (stated,) = (one for one in dataset.description.networks if one.column == column)
    network = find_network(stated.place, stated.variant)
    if network.digest != stated.model_sha256:
        raise BadFile(
            f"{network.path} is another file here than where the work was begun: give all machines "
            "one folder."
        )
    runner = Runner(network, _open_session(network.path, network.digest), lanes or _count_cores())
    return ChunkWorker(out, dataset.description, column, runner, report)


@lru_cache(1)
def _open_session(path: Path, digest: str) -> Session:
    """Return the session of a file. It is shared by the tasks that this process runs."""
    return lane_session(path)


def _count_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_task(out: Path, column: str, task: Task) -> ChunkResult:
    """Run a task in the process of a Dask worker, with one thread of the network."""
    worker = make_worker(out, column, lanes=1)
    try:
        return worker.run(task)
    finally:
        worker.stop()
