"""Course of `zoo embed`: compare sources and rows, have chunks embedded, commit their fragments.

Chunks are embedded by threads of this process, or by the workers of a Dask cluster.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import replace
from functools import lru_cache, partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.embed.changes import Changes
from zoo.apps.embed.chunks import ChunkWorker, Task
from zoo.apps.embed.dataset import ChunkResult, Dataset, Description, check_path
from zoo.apps.embed.network import Runner, find_network, lane_session
from zoo.apps.embed.requests import VECTOR, EmbedRequest, EmbedResult
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.embed.sources import state_sources
from zoo.artifacts.choices import tower_variant
from zoo.common.errors import BadFile, BadOutput, BadRequest
from zoo.common.progress import is_terminal
from zoo.common.staging import locked_output

if TYPE_CHECKING:
    from zoo.common.runtime import Session

LOG_SECONDS, TERMINAL_SECONDS = 10.0, 0.5
"""Seconds between two messages of progress in a log, and on a terminal."""

CHUNKS = 2
"""The number of chunks that this process works on at the same time: one starts while the last
pictures of another are in progress."""

AHEAD = 2048
"""The number of tasks that a scheduler has at the same time; each takes it some kilobytes."""


HandleResults = Callable[[list[ChunkResult]], None]
"""A function that is called with results as soon as there are some."""


def make_dataset(request: EmbedRequest, progress: Progress) -> EmbedResult:
    """Make a dataset, or bring it up to date.

    **Raises** a `ZooError` or `WeightsError`. What was committed before stays.
    """
    began = time.perf_counter()
    check_path(request.out)
    network = find_network(request.model, request.precision, request.offline)
    columns = RowColumns(network, request.dtype, request.extra)
    columns.check()
    description = _describe(columns, request)
    with locked_output(request.out, progress):
        dataset = Dataset.open(request.out)
        if request.append_model:
            if dataset is None:
                raise BadFile(
                    f"{request.out} is no dataset, to which a model could be appended: make it "
                    f"first, without {parameter('append_model')}."
                )
            description, column = dataset.description.append_network(description)
            extra = description.extra if column == VECTOR else ()
            columns = replace(columns, extra=extra, column=column)
        if dataset is None or request.force:
            dataset = Dataset.create(request.out, columns.schema(), description)
        dataset.check(description, columns.column)
        progress.stage("looking for pictures")
        changes = Changes(dataset.table, description.sources, request.shard)
        _check_changes(dataset, changes, request, columns.column)
        dataset.set_description(description, columns.schema().field(columns.column))
        run = Run(dataset, changes, columns, progress)
        run.work(request)
        missing_rows, conditions = changes.find_missing(dataset.table)
        for condition in conditions:
            # Rows with an error are deleted in any case.
            dataset.delete(condition if request.prune else f"{condition} and error is not null")
        dataset.clean()
        return run.result(missing_rows, request.prune, time.perf_counter() - began)


def _describe(columns: RowColumns, request: EmbedRequest) -> Description:
    """Return the description of the dataset that a request asks for."""
    network, manifest = columns.network, columns.network.manifest
    has_text_tower = any(name.startswith(tower_variant("text", "")) for name in manifest.variants)
    return Description(
        model=manifest.model,
        variant=network.name,
        model_sha256=network.digest,
        place=str(network.named_path),
        dtype=columns.dtype,
        dim=network.dim,
        size=network.size,
        draft=request.draft,
        batch=request.batch,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if has_text_tower else None,
        columns=columns.names,
        sources=state_sources(request.sources),
    )


def _check_changes(dataset: Dataset, changes: Changes, request: EmbedRequest, column: str) -> None:
    """Check that all models of a dataset will have vectors of the same pictures.

    `column` is the column of the model's vectors. **Raises** `BadOutput` if a model is to be
    appended and there are new or missing pictures. It is also raised if the dataset has appended
    models, the run computes vectors of the first model, and pictures have changed or rows would be
    removed.
    """
    appended = dataset.description.appended
    if request.append_model and (changes.has_new or changes.has_missing):
        raise BadOutput(
            f"the sources of {dataset.path} have other pictures now than its rows: bring these up "
            f"to date first, without {parameter('append_model')} and with {parameter('prune')}."
        )
    changes_rows = len(changes.changed) or (request.prune and changes.has_missing)
    if appended and column == VECTOR and changes_rows:
        columns = ", ".join(network.column for network in appended)
        raise BadOutput(
            f"{dataset.path} was made of other pictures than there are now, and has {columns} of "
            f"them, too: make it again with {parameter('force')}, and then append these models."
        )


class Run:
    """The tasks of a run, its counts and its progress.

    - `pictures`: the number of pictures to embed; None if archives contain some of them.
    - `shown`: the numbers of pictures that are done, and of those that were computed.
    """

    def __init__(self, dataset: Dataset, changes: Changes, columns: RowColumns, progress: Progress):
        self.dataset, self.changes, self.columns = dataset, changes, columns
        self.progress, self.lock = progress, threading.Lock()
        self.pictures, self.task_count = changes.picture_count, changes.chunk_count
        if columns.column != VECTOR:
            self.pictures = dataset.count(self._pending)
            self.task_count = len(dataset.table.get_fragments()) if self.pictures else 0
        self.counts, self.seconds, self.tasks_done = Counter[str](), dict[str, float](), 0
        self.shown = Counter[str]()
        self.pause = TERMINAL_SECONDS if is_terminal(sys.stderr) else LOG_SECONDS
        self.began = self.reported = time.monotonic()

    @property
    def _pending(self) -> str:
        """SQL condition for the rows that should get a vector of an appended model."""
        return f"error is null and {self.columns.column} is null"

    def _tasks(self) -> Iterator[Task]:
        """Yield the chunks of changed pictures, or the fragments that get an appended model."""
        if self.columns.column == VECTOR:
            yield from self.changes.chunks()
        else:
            yield from [fragment.fragment_id for fragment in self.dataset.table.get_fragments()]

    def work(self, request: EmbedRequest) -> None:
        """Run the tasks here or on a cluster, and commit their results."""
        if not self.task_count:
            return
        path, columns, tasks = self.dataset.path, self.columns, self._tasks()
        try:
            if request.scheduler is None:
                session = lane_session(columns.network.path)
                runner = Runner(columns.network, session, request.threads or _count_cores())
                description = self.dataset.description
                worker = ChunkWorker(path, description, columns, runner, self._show)
                run_locally(worker, tasks, self._commit_results)
            else:
                function = partial(run_task, path, columns.column)
                run_on_cluster(request.scheduler, function, tasks, self._commit_results)
        except KeyboardInterrupt:
            self.progress.note(
                f"{path} is not finished: {self.tasks_done:,} of {self.task_count:,} chunks are "
                "done, and stay. The same command goes on from there."
            )
            raise

    def _commit_results(self, results: Sequence[ChunkResult]) -> None:
        """Commit the results of tasks and count them."""
        self.dataset.commit(results)
        for result in results:
            self.tasks_done += 1
            self.counts += result.counts
            for stage, seconds in result.seconds.items():
                self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds
        # Threads of this process report each piece of a chunk earlier.
        with self.lock:
            missing = self.counts - self.shown
        self._show(missing["pictures"], missing["computed"])

    def _show(self, pictures: int, computed: int) -> None:
        """Count pictures that are done and computed, and show the progress from time to time."""
        with self.lock:
            self.shown += Counter(pictures=pictures, computed=computed)
            now = time.monotonic()
            if now - self.reported < self.pause:
                return
            self.reported = now
        self.progress.stage(self._progress_text(now - self.began))

    def _progress_text(self, seconds: float) -> str:
        """Return the number of pictures, the rate, and the time that is left, in words.

        `seconds` is the time since the start of the run.
        """
        done, rate = self.shown["pictures"], self.shown["computed"] / seconds
        total = "" if self.pictures is None else f" of {self.pictures:,}"
        text = f"{done:,}{total} pictures"
        if rate:
            text += f", {rate:,.1f} a second"
        if rate and self.pictures is not None:
            return f"{text}, {_format_duration((self.pictures - done) / rate)} left"
        if self.tasks_done:
            left = (self.task_count - self.tasks_done) * seconds / self.tasks_done
            return f"{text}, {_format_duration(left)} left"
        return text

    def result(self, missing_rows: int, pruned: bool, wall: float) -> EmbedResult:
        """Return the result of the run, after `wall` seconds.

        `missing_rows` is the number of rows whose pictures are missing; they were deleted if
        `pruned`.
        """
        count, counts = self.dataset.count, self.counts
        pictures, errors = count("error is null"), count("error is not null")
        if self.columns.column != VECTOR:
            errors += count(self._pending)
        kept = pictures - counts["added"] - counts["again"] - (0 if pruned else missing_rows)
        return EmbedResult(
            self.dataset.path,
            pictures,
            errors,
            counts["computed"],
            kept=kept,
            added=counts["added"],
            again=counts["again"],
            gone=missing_rows,
            pruned=pruned,
            passed=dict(self.changes.skipped_files),
            wall=wall,
            cores=sum(self.seconds.values()) / wall,
            seconds=self.seconds,
        )


def _format_duration(seconds: float) -> str:
    """Return a duration in seconds, minutes or hours."""
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:,.1f} h"


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


@lru_cache(1)
def _open_session(path: Path, digest: str) -> Session:
    """Return the session of a file. It is shared by the tasks that this process runs."""
    return lane_session(path)


def _count_cores() -> int:
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_task(out: Path, column: str, task: Task) -> ChunkResult:
    """Run a task in the process of a Dask worker, with one thread of the network.

    **Arguments:** `column` is the column of the dataset at `out` that gets the vectors. The dataset
    describes its network. **Raises** `BadFile` if the file of the network is another one on this
    machine.
    """
    dataset = Dataset.open(out)
    assert dataset is not None
    description = dataset.description
    (stated,) = (one for one in description.networks if one.column == column)
    network = find_network(stated.place, stated.variant)
    if network.digest != stated.model_sha256:
        raise BadFile(
            f"{network.path} is another file here than where the work was begun: give all machines "
            "one folder."
        )
    extra = description.extra if column == VECTOR else ()
    columns = RowColumns(network, description.dtype, extra, column)
    runner = Runner(network, _open_session(network.path, network.digest), 1)
    worker = ChunkWorker(out, description, columns, runner)
    try:
        return worker.run(task)
    finally:
        worker.stop()
