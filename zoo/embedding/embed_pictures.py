"""The course of `zoo embed`: shards are listed, worked on, and put together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from weights.progress import Progress
from zoo.embedding.about import About, read_about, write_about
from zoo.embedding.beginning import begin_dataset, state_appended, state_dataset
from zoo.embedding.crews import cluster_crew, local_crew, run_shards
from zoo.embedding.embed_request import Embedded, EmbedRequest
from zoo.embedding.network import find_network
from zoo.embedding.part_files import PartFormat, part_format
from zoo.embedding.picture_sources import state_sources
from zoo.embedding.placing import placing
from zoo.embedding.row_columns import RowColumns
from zoo.embedding.shard_work import ShardRecipe
from zoo.embedding.tally import Tally
from zoo.embedding.work_folder import WorkFolder
from zoo.files.staging import locked_output, writing


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
    about = state_dataset(columns, asked, state_sources(asked.sources))
    with locked_output(dataset, told):
        if asked.append:
            about, columns = state_appended(read_about(dataset), about, columns)
            how = part_format(dataset, columns.column)
        recipe = ShardRecipe(str(found.place), found.digest, asked, columns.column)
        if finished := begin_dataset(dataset, how, about, force, told):
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


def _finish(dataset: Path, how: PartFormat, columns: RowColumns, about: About) -> About:
    """Put the parts together. What is done twice, where this is interrupted, is the same."""
    work, parts = WorkFolder(dataset), list[tuple[Path, int]]()
    notes = [note for index, _ in work.shards() if (note := work.note(index, how)) is not None]
    parts = [(how.part(dataset, note.index), note.rows) for note in notes if note.rows]
    errors = [error for note in notes for error in note.errors]
    if columns.are_appended:
        # Where this is done a second time, they are among those that the file has.
        errors = [*dict.fromkeys([*_read_errors(errors_path(dataset)), *errors])]
    with writing(dataset):
        for note in notes:
            if not note.rows:
                how.part(dataset, note.index).unlink(missing_ok=True)
        how.commit(dataset, columns.schema(), parts)
        _write_errors(errors_path(dataset), work.folder, errors)
    about = about.changed(pictures=sum(rows for _, rows in parts), errors=len(errors))
    write_about(dataset, about, work.folder)
    work.remove()
    return about


def errors_path(dataset: Path) -> Path:
    """The file beside a dataset that says which pictures could not be read."""
    return dataset.with_suffix(".errors.parquet")


def _read_errors(path: Path) -> list[tuple[str, str]]:
    from pyarrow import parquet

    if not path.is_file():
        return []
    rows = parquet.read_table(path).to_pylist()
    return [(row["key"], row["reason"]) for row in rows]


def _write_errors(path: Path, work: Path, found: Sequence[tuple[str, str]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    if not found:
        path.unlink(missing_ok=True)
        return
    keys, reasons = zip(*found, strict=True)
    with placing(path, work) as stage:
        parquet.write_table(pa.table({"key": keys, "reason": reasons}), stage)
