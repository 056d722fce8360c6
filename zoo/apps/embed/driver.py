"""Course of `zoo embed`: compare sources and rows, have chunks embedded, commit their fragments."""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.embed.changes import Changes
from zoo.apps.embed.chunks import Recipe, Task
from zoo.apps.embed.dataset import ChunkResult, Dataset, check_path
from zoo.apps.embed.description import Description, StatedNetwork, StatedSource
from zoo.apps.embed.embed_call import VECTOR, EmbedRequest, EmbedResult
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
        path, digest = str(network.place), network.digest
        recipe = Recipe(path, digest, request, description.sources, columns.column)
        run = Run(dataset, changes, columns.column, progress)
        run.work(recipe, threads, scheduler)
        gone, conditions = changes.missing(dataset.table)
        for condition in conditions:
            # Rows of errors are deleted in any case.
            dataset.delete(condition if request.prune else f"{condition} and error is not null")
        dataset.clean()
        return run.result(gone, request.prune, time.perf_counter() - began)


def describe_dataset(
    columns: RowColumns, request: EmbedRequest, sources: tuple[StatedSource, ...]
) -> Description:
    """Return the description of a dataset that a request asks for."""
    network = columns.found
    manifest = network.manifest
    towers = any(name.startswith(tower_variant("text", "")) for name in manifest.variants)
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


class Run:
    """Tasks of a run, its counts and its progress."""

    def __init__(self, dataset: Dataset, changes: Changes, column: str, progress: Progress):
        self.dataset, self.changes, self.progress = dataset, changes, progress
        self.pending = "error is null" + f" and {column} is null" * (column != VECTOR)
        self.is_update = column == VECTOR
        self.pictures, self.task_count = changes.picture_count, changes.chunk_count
        if not self.is_update:
            self.pictures = dataset.count(self.pending)
            self.task_count = len(dataset.table.get_fragments()) if self.pictures else 0
        self.counts, self.seconds = Counter[str](), defaultdict[str, float](float)
        self.tasks_done = 0
        self.shown, self.shown_computed, self.lock = 0, 0, threading.Lock()
        self.pause = TERMINAL_SECONDS if is_terminal(sys.stderr) else LOG_SECONDS
        self.began = self.reported = time.monotonic()

    def tasks(self) -> Iterator[Task]:
        """Yield the chunks, or the fragments to which a model is appended."""
        if self.is_update:
            yield from self.changes.chunks()
        else:
            yield from [fragment.fragment_id for fragment in self.dataset.table.get_fragments()]

    def work(self, recipe: Recipe, threads: int | None, scheduler: str | None) -> None:
        """Have the tasks done, and their results committed."""
        if not self.task_count:
            return
        if scheduler is None:
            opened = local_workers(recipe, threads, self.show)
        else:
            opened = cluster_workers(scheduler, recipe)
        with opened as workers:
            try:
                run_chunks(self.tasks(), workers, partial(self.settle, scheduler is not None))
            except KeyboardInterrupt:
                self.progress.note(
                    f"{self.dataset.path} is not finished: {self.tasks_done:,} of "
                    f"{self.task_count:,} chunks are done, and stay. The same command goes on from "
                    "there."
                )
                raise

    def settle(self, shows: bool, results: Sequence[ChunkResult]) -> None:
        """Commit the results of tasks and count them."""
        self.dataset.commit(results)
        for result in results:
            self.tasks_done += 1
            self.counts.update(result.counts)
            for stage, seconds in result.seconds.items():
                self.seconds[stage] += seconds
            if shows:
                self.show(result.counts["pictures"], result.counts["computed"])

    def show(self, pictures: int, computed: int) -> None:
        """Count pictures in the progress, of which some were embedded."""
        with self.lock:
            self.shown += pictures
            self.shown_computed += computed
            now = time.monotonic()
            if now - self.reported < self.pause:
                return
            self.reported = now
        self.progress.stage(self._text(now - self.began))

    def _text(self, seconds: float) -> str:
        """Return the state of the run: pictures, rate, and the time that is left."""
        of_all = "" if self.pictures is None else f" of {self.pictures:,}"
        text = f"{self.shown:,}{of_all} pictures"
        if rate := self.shown_computed / seconds:
            text += f", {rate:,.1f} a second"
        if rate and self.pictures is not None:
            return f"{text}, {_duration((self.pictures - self.shown) / rate)} left"
        if self.tasks_done:
            left = (self.task_count - self.tasks_done) * seconds / self.tasks_done
            return f"{text}, {_duration(left)} left"
        return text

    def result(self, gone: int, pruned: bool, wall: float) -> EmbedResult:
        """Return the result of the run, in which rows of `gone` pictures were found."""
        count, counts = self.dataset.count, self.counts
        pictures, errors = count("error is null"), count("error is not null")
        return EmbedResult(
            self.dataset.path,
            pictures,
            errors + (0 if self.is_update else count(self.pending)),
            counts["computed"],
            kept=pictures - counts["added"] - counts["again"] - (0 if pruned else gone),
            added=counts["added"],
            again=counts["again"],
            gone=gone,
            pruned=pruned,
            passed=dict(self.changes.passed),
            wall=wall,
            cores=sum(self.seconds.values()) / wall,
            seconds=dict(self.seconds),
        )


def _duration(seconds: float) -> str:
    minutes, hours = seconds / 60, seconds / 3600
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:,.1f} h"
