"""The course of `zoo embed`: shards are listed, worked on, and put together."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

from weights.progress import Progress
from zoo.embedding.about import ABOUT, About, StatedSource, read_about, write_about
from zoo.embedding.crews import cluster_crew, local_crew, run_shards
from zoo.embedding.embed_request import Embedded, EmbedRequest
from zoo.embedding.network import find_network
from zoo.embedding.part_files import PartFormat, part_format
from zoo.embedding.picture_sources import cut_shards, state_sources
from zoo.embedding.placing import placing
from zoo.embedding.row_columns import RowColumns
from zoo.embedding.shard_work import ShardRecipe
from zoo.embedding.tally import Tally
from zoo.embedding.work_folder import WORK, ShardNote, WorkFolder
from zoo.errors import BadOutput
from zoo.files.staging import locked_output, writing

TEXT_TOWER = "text_"  # how the variants of one begin

FREE = {"pictures", "errors", "place"}
"""What may differ between two runs that make one dataset."""


def make_dataset(
    asked: EmbedRequest,
    threads: int | None,
    scheduler: str | None,
    force: bool,
    offline: bool,
    told: Progress,
) -> Embedded:
    """Make a dataset, or what is missing of it, with threads of this process or on a cluster.

    **Raises** a `ZooError` or `WeightsError`; what is done by then stays.
    """
    began, dataset = time.perf_counter(), asked.dataset
    how, found = part_format(dataset), find_network(asked.model, asked.precision, offline)
    columns = RowColumns(found, asked.dtype, asked.extra)
    columns.check()
    about = _about(columns, asked, state_sources(asked.sources))
    recipe = ShardRecipe(str(found.place), found.digest, asked)
    with locked_output(dataset, told):
        if finished := _begin(dataset, how, about, force, told):
            return Embedded(dataset, finished.pictures, finished.errors)
        tally = Tally(WorkFolder(dataset), how, told)
        if scheduler is None:
            crew = local_crew(recipe, threads, tally)
        else:
            crew = cluster_crew(scheduler, recipe)
        with crew as opened:
            run_shards(opened, tally)
        about = _finish(dataset, how, columns, about)
    wall = time.perf_counter() - began
    cores = tally.cores(wall, here=scheduler is None)
    done = (about.pictures, about.errors, tally.computed)
    return Embedded(dataset, *done, wall, cores, dict(tally.seconds))


def _about(columns: RowColumns, asked: EmbedRequest, sources: tuple[StatedSource, ...]) -> About:
    """What the dataset will say of itself, but for counts."""
    found = columns.found
    manifest, place = found.manifest, str(found.place)
    towers = any(name.startswith(TEXT_TOWER) for name in manifest.variants)
    return About(
        model=manifest.model,
        variant=found.name,
        model_sha256=found.digest,
        place=place,
        dtype=columns.dtype,
        dim=columns.dim,
        size=manifest.size or (None if found.is_free else manifest.preprocessing.size),
        draft=asked.draft,
        batch=asked.batch,
        shard=asked.shard,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if towers else None,
        columns=columns.names,
        sources=sources,
    )


def _begin(
    dataset: Path, how: PartFormat, about: About, force: bool, told: Progress
) -> About | None:
    """List the shards of a dataset, unless that was done before; of a finished one what it says.

    **Raises** `BadOutput` where something else is in its place.
    """
    work = WorkFolder(dataset)
    ours = work.folder.is_dir() or (dataset / ABOUT).is_file()
    if force and ours:
        with writing(dataset):
            # What is left of a removal that is interrupted is still known to be ours.
            for each in sorted(dataset.iterdir(), key=lambda each: each.name in (WORK, ABOUT)):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
    if (dataset / ABOUT).is_file():
        finished = read_about(dataset)
        _check_same(dataset, finished, about)
        work.remove()
        return finished
    if work.is_there:
        _check_same(dataset, read_about(work.folder), about)
        work.sweep()
        return None
    if os.path.lexists(dataset) and (
        not dataset.is_dir() or {*os.listdir(dataset)} - {WORK, how.folder}
    ):
        raise BadOutput(f"{dataset} is no dataset that was begun here: choose another place.")
    told.stage("looking for pictures")
    with writing(dataset):
        for folder in (work.folder, how.part(dataset, 0).parent):
            folder.mkdir(parents=True, exist_ok=True)
        work.list_shards(cut_shards(about.sources, about.shard))
    write_about(work.folder, about, work.folder)
    return None


def _check_same(dataset: Path, earlier: About, about: About) -> None:
    """**Raises** `BadOutput` where a dataset is one of other pictures or another model."""
    asked, found = (each.model_dump(exclude=FREE) for each in (about, earlier))
    different = [name for name in asked if asked[name] != found[name]]
    if not different:
        return
    if "model_sha256" in different:
        told = f"{earlier.model} in {earlier.variant} ({earlier.model_sha256[:8]})"
        what = f"vectors of {told}, not of {about.model} in {about.variant}"
        raise BadOutput(
            f"{dataset} holds {what} ({about.model_sha256[:8]}), and their vectors cannot be "
            "compared: choose another place, or replace it with --force."
        )
    raise BadOutput(
        f"{dataset} was made with other {' and '.join(different)}: choose another place, or "
        "replace it with --force."
    )


def _finish(dataset: Path, how: PartFormat, columns: RowColumns, about: About) -> About:
    """Put the parts together. What is done twice, where this is interrupted, is the same."""
    work, parts = WorkFolder(dataset), list[tuple[Path, int]]()
    notes = [note for index, _ in work.shards() if (note := work.note(index, how)) is not None]
    parts = [(how.part(dataset, note.index), note.rows) for note in notes if note.rows]
    errors = sum(len(note.errors) for note in notes)
    with writing(dataset):
        for note in notes:
            if not note.rows:
                how.part(dataset, note.index).unlink(missing_ok=True)
        how.commit(dataset, columns.schema(), parts)
        _write_errors(errors_path(dataset), work.folder, notes)
    about = about.changed(pictures=sum(rows for _, rows in parts), errors=errors)
    write_about(dataset, about, work.folder)
    work.remove()
    return about


def errors_path(dataset: Path) -> Path:
    """The file beside a dataset that says which pictures could not be read."""
    return dataset.with_suffix(".errors.parquet")


def _write_errors(path: Path, work: Path, notes: Sequence[ShardNote]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    found = [error for note in notes for error in note.errors]
    if not found:
        path.unlink(missing_ok=True)
        return
    keys, reasons = zip(*found, strict=True)
    with placing(path, work) as stage:
        parquet.write_table(pa.table({"key": keys, "reason": reasons}), stage)
