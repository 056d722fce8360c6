"""Course of `zoo embed`: compare sources and rows, have chunks embedded, commit their fragments."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.embed.changes import Changes
from zoo.apps.embed.chunks import Recipe, Task
from zoo.apps.embed.dataset import ChunkResult, Dataset, check_path
from zoo.apps.embed.description import Description, StatedNetwork, StatedSource
from zoo.apps.embed.embed_request import VECTOR, EmbedRequest, EmbedResult
from zoo.apps.embed.network import find_network
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.embed.sources import state_sources
from zoo.apps.embed.workers import cluster_workers, local_workers, run_chunks
from zoo.artifacts.choices import tower_variant
from zoo.common.errors import BadFile, BadOutput
from zoo.common.progress import is_terminal
from zoo.common.staging import locked_output

VARIABLE_FIELDS = {"place", "appended", "sources"}
"""Fields of a description that two runs on one dataset may differ in."""

APPENDED_FIELDS = "dtype", "draft", "batch", "sources"
"""Fields that a run that appends a model shares with the run that made the dataset."""

LOG_SECONDS, TERMINAL_SECONDS = 10.0, 0.5
"""Time between two lines of progress in a log, and on a terminal."""


def make_dataset(
    request: EmbedRequest,
    threads: int | None,
    scheduler: str | None,
    force: bool,
    offline: bool,
    progress: Progress,
) -> EmbedResult:
    """Make a dataset or bring it up to date, with threads of this process or on a cluster.

    **Raises** a `ZooError` or `WeightsError`; what was committed by then stays.
    """
    began = time.perf_counter()
    check_path(request.out)
    network = find_network(request.model, request.precision, offline)
    columns = RowColumns(network, request.dtype, request.extra)
    columns.check()
    description = describe_dataset(columns, request, state_sources(request.sources))
    with locked_output(request.out, progress):
        dataset = Dataset.open(request.out)
        if request.append_model:
            description, columns = append_network(dataset, request, description, columns)
        if dataset is None or force:
            dataset = Dataset.create(request.out, columns.schema(), description)
        _check_same(dataset, description)
        dataset.check_columns(columns.column)
        progress.stage("looking for pictures")
        changes = Changes(dataset.table, description.sources, request.shard)
        _check_changes(dataset, changes, request)
        dataset.add_column(columns.vector_field())
        dataset.describe(description)
        statistics = Statistics(dataset, changes, columns.column, scheduler is None, progress)
        path, digest = str(network.place), network.digest
        recipe = Recipe(path, digest, request, description.sources, columns.column)
        _run(recipe, statistics, threads, scheduler)
        gone, conditions = changes.missing(dataset.table)
        for condition in conditions:
            # Rows of errors are deleted in any case.
            dataset.delete(condition if request.prune else f"{condition} and error is not null")
        dataset.clean()
        return statistics.result(gone, request.prune, began)


def _run(
    recipe: Recipe, statistics: Statistics, threads: int | None, scheduler: str | None
) -> None:
    """Have the tasks of a run done, and their results committed."""
    if not statistics.tasks:
        return
    if scheduler is None:
        opened = local_workers(recipe, threads, statistics.count)
    else:
        opened = cluster_workers(scheduler, recipe)
    with opened as workers:
        try:
            run_chunks(statistics.read_tasks(), workers, statistics.settle)
        except KeyboardInterrupt:
            statistics.progress.note(statistics.interruption())
            raise


def describe_dataset(
    columns: RowColumns, request: EmbedRequest, sources: tuple[StatedSource, ...]
) -> Description:
    """Return the description of a dataset that a request asks for."""
    network = columns.found
    manifest = network.manifest
    towers = any(name.startswith(tower_variant("input_ids", "")) for name in manifest.variants)
    return Description(
        model=manifest.model,
        variant=network.name,
        model_sha256=network.digest,
        place=str(network.place),
        dtype=columns.dtype,
        dim=columns.dim,
        size=manifest.size or (None if network.is_free else manifest.preprocessing.size),
        draft=request.draft,
        batch=request.batch,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if towers else None,
        columns=columns.names,
        sources=sources,
    )


def append_network(
    dataset: Dataset | None, request: EmbedRequest, description: Description, columns: RowColumns
) -> tuple[Description, RowColumns]:
    """Return the description of a dataset with one model more, and the column of its vectors.

    **Raises** `BadFile` if there is no dataset.
    """
    if dataset is None:
        raise BadFile(
            f"{request.out} is no dataset, to which a model could be appended: make it first, "
            f"without {parameter('append_model')}."
        )
    earlier = dataset.description
    same = earlier.changed(**{name: dict(description)[name] for name in APPENDED_FIELDS})
    for network in earlier.networks:
        if network.model_sha256 == description.model_sha256:
            return same, replace(columns, column=network.column)
    # A dot would be the path of a nested column.
    name = f"{VECTOR}_{description.model}_{description.variant}"
    column = re.sub(r"\W", "_", name, flags=re.ASCII)
    if column in {network.column for network in earlier.networks}:
        column += f"_{description.model_sha256[:8]}"
    stated = {name: dict(description)[name] for name in StatedNetwork.model_fields}
    network = StatedNetwork.model_validate(stated | {"column": column})
    return (
        same.changed(appended=(*earlier.appended, network)),
        replace(columns, column=column),
    )


def _check_same(dataset: Dataset, description: Description) -> None:
    """**Raises** `BadOutput` if a dataset has other pictures or another model."""
    earlier = dataset.description
    fields = description.model_dump(exclude=VARIABLE_FIELDS)
    before = earlier.model_dump(exclude=VARIABLE_FIELDS)
    different = [name for name in fields if fields[name] != before[name]]
    if not _have_same_sources(earlier, description):
        different.append("sources")
    if "model_sha256" in different:
        raise BadOutput(
            f"{dataset.path} holds vectors of {earlier.told}, not of {description.told}, and these "
            "cannot be compared: give them a column of their own with "
            f"{parameter('append_model')}, choose another place, or replace it with "
            f"{parameter('force')}."
        )
    if different:
        raise BadOutput(
            f"{dataset.path} was made with other {' and '.join(different)}: choose another place, "
            f"or replace it with {parameter('force')}."
        )


def _have_same_sources(earlier: Description, description: Description) -> bool:
    """Return whether the sources are the same, apart from archives that were added or removed."""
    folders, archives = [], []
    for sources in (earlier.sources, description.sources):
        folders.append([source for source in sources if not source.is_archive])
        archives.append({source.path for source in sources if source.is_archive})
    if folders[0] != folders[1]:
        return False
    return bool(folders[0] or archives[0] & archives[1])


def _check_changes(dataset: Dataset, changes: Changes, request: EmbedRequest) -> None:
    """**Raises** `BadOutput` if rows and pictures differ, and two models would not have the same
    rows any more."""
    appended = dataset.description.appended
    if request.append_model and (changes.has_new or changes.has_missing):
        raise BadOutput(
            f"the sources of {dataset.path} have other pictures now than its rows: bring these up "
            f"to date first, without {parameter('append_model')} and with {parameter('prune')}."
        )
    prunes = request.prune and changes.has_missing
    if appended and not request.append_model and (len(changes.changed) or prunes):
        columns = ", ".join(network.column for network in appended)
        raise BadOutput(
            f"{dataset.path} was made of other pictures than there are now, and has {columns} of "
            f"them, too: make it again with {parameter('force')}, and then append these models."
        )


class Statistics:
    """Tasks of a run and their counts; reports the progress."""

    def __init__(
        self, dataset: Dataset, changes: Changes, column: str, is_local: bool, progress: Progress
    ):
        self.dataset, self.changes, self.progress = dataset, changes, progress
        self.column, self.is_local = column, is_local
        self.pictures, self.tasks = changes.picture_count, changes.chunk_count
        self.fragments = list[int]()
        if column != VECTOR:
            self.pictures = dataset.count(f"error is null and {column} is null")
            fragments = dataset.table.get_fragments() if self.pictures else []
            self.fragments = [fragment.fragment_id for fragment in fragments]
            self.tasks = len(self.fragments)
        self.shown = self.shown_computed = 0
        self.computed = self.added = self.again = self.tasks_done = 0
        self.seconds = Counter[str]()
        self.pause = TERMINAL_SECONDS if is_terminal(sys.stderr) else LOG_SECONDS
        self.lock, self.process_time = threading.Lock(), time.process_time()
        self.began = self.reported = time.monotonic()

    def read_tasks(self) -> Iterator[Task]:
        """Yield the chunks, or the fragments to which a model is appended."""
        return self.changes.chunks() if self.column == VECTOR else iter(self.fragments)

    def count(self, pictures: int, computed: int) -> None:
        """Count pictures in the progress, of which some were embedded."""
        with self.lock:
            self.shown += pictures
            self.shown_computed += computed
            now = time.monotonic()
            if now - self.reported < self.pause:
                return
            self.reported = now
        self.progress.stage(self._text(now - self.began))

    def settle(self, results: Sequence[ChunkResult]) -> None:
        """Commit the results of tasks and count them."""
        self.dataset.commit(results)
        for result in results:
            self.tasks_done += 1
            self.computed += result.computed
            self.added += result.added
            self.again += result.again
            self.seconds.update(result.seconds)
            if not self.is_local:
                self.count(result.pictures, result.computed)

    def interruption(self) -> str:
        """Return a sentence for a run that is interrupted."""
        return (
            f"{self.dataset.path} is not finished: {self.tasks_done:,} of {self.tasks:,} chunks "
            "are done, and stay. The same command goes on from there."
        )

    def result(self, gone: int, pruned: bool, began: float) -> EmbedResult:
        """Return the result of the run, in which rows of `gone` pictures were found."""
        wall = time.perf_counter() - began
        busy = time.process_time() - self.process_time if self.is_local else self.seconds.total()
        pictures, errors = (self.dataset.count(f"error is {null} null") for null in ("", "not"))
        if self.column != VECTOR:
            errors += self.dataset.count(f"error is null and {self.column} is null")
        return EmbedResult(
            self.dataset.path,
            pictures,
            errors,
            self.computed,
            kept=pictures - self.added - self.again - (0 if pruned else gone),
            added=self.added,
            again=self.again,
            gone=gone,
            pruned=pruned,
            passed=dict(self.changes.passed),
            wall=wall,
            cores=busy / wall,
            seconds=dict(self.seconds),
        )

    def _text(self, seconds: float) -> str:
        """Return the state of the run: pictures, rate, and the time that is left."""
        rate = self.shown_computed / seconds
        text = f"{self.shown:,}"
        if self.pictures is not None:
            text += f" of {self.pictures:,}"
        text += " pictures"
        if rate:
            text += f", {rate:,.1f} a second"
        if rate and self.pictures is not None:
            return f"{text}, {_duration((self.pictures - self.shown) / rate)} left"
        if self.tasks_done:
            left = (self.tasks - self.tasks_done) * seconds / self.tasks_done
            return f"{text}, {_duration(left)} left"
        return text


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:,.1f} h"
