"""The course of `zoo embed`: shards are listed, worked on, and put together."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from weights.progress import Progress
from zoo.apps.embed.about import About, about_path, read_about, write_about
from zoo.apps.embed.beginning import begin_dataset, state_appended, state_dataset
from zoo.apps.embed.crews import cluster_crew, local_crew, run_shards
from zoo.apps.embed.earlier_rows import LISTED, ListedShard, check_untouched
from zoo.apps.embed.embed_request import Embedded, EmbedRequest
from zoo.apps.embed.lance_parts import INDICES, TABLE_FOLDERS
from zoo.apps.embed.network import find_network
from zoo.apps.embed.part_files import SUFFIX, PartFormat, part_format
from zoo.apps.embed.picture_sources import GONE, state_sources
from zoo.apps.embed.placing import placing
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.embed.shard_work import ShardRecipe
from zoo.apps.embed.tally import Tally
from zoo.apps.embed.work_folder import ShardNote, WorkFolder
from zoo.common.staging import locked_output, writing


def make_dataset(
    asked: EmbedRequest,
    threads: int | None,
    scheduler: str | None,
    force: bool,
    offline: bool,
    progress: Progress,
) -> Embedded:
    """Make a dataset, or what is missing of it, with threads of this process or on a cluster.

    **Raises** a `ZooError` or `WeightsError`; what is done by then stays.
    """
    began, dataset = time.perf_counter(), asked.out
    how, network = part_format(dataset), find_network(asked.model, asked.precision, offline)
    columns = RowColumns(network, asked.dtype, asked.extra)
    columns.check()
    about = state_dataset(columns, asked, state_sources(asked.sources))
    with locked_output(dataset, progress):
        if asked.append_model:
            about, columns = state_appended(read_about(dataset), about, columns)
            how = part_format(dataset, columns.column)
        recipe = ShardRecipe(str(network.place), network.digest, asked, columns.column)
        begun = begin_dataset(dataset, how, about, asked, force, progress)
        if (done := begun.finished) is not None:
            counts = (0, done.pictures - done.gone, 0, 0, done.gone)
            passed = begun.passed
            return Embedded(dataset, done.pictures, done.errors, *counts, passed=passed)
        tally = Tally(WorkFolder(dataset), how, progress)
        if scheduler is None:
            crew = local_crew(recipe, threads, tally)
        else:
            crew = cluster_crew(scheduler, recipe)
        with crew as opened:
            try:
                run_shards(opened, tally)
            except KeyboardInterrupt:
                progress.note(
                    f"{dataset} is not finished: {tally.shards_done:,} of {tally.shards:,} parts "
                    "are done, and stay. The same command goes on from there."
                )
                raise
        about, changes = _finish(dataset, how, columns, about, progress)
    wall = time.perf_counter() - began
    cores = tally.cores(wall, here=scheduler is None)
    return Embedded(
        dataset,
        about.pictures,
        about.errors,
        tally.computed,
        **changes,
        pruned=asked.prune,
        passed=begun.passed,
        wall=wall,
        cores=cores,
        seconds=dict(tally.seconds),
    )


def _finish(
    dataset: Path, how: PartFormat, columns: RowColumns, about: About, progress: Progress
) -> tuple[About, dict[str, int]]:
    """Put the parts together, and count what has changed. What is done twice, where this is
    interrupted, is the same."""
    work, parts = WorkFolder(dataset), list[tuple[Path, int]]()
    notes = [note for index, _ in work.shards() if (note := work.note(index, how)) is not None]
    parts = [(how.part(dataset, note.index), note.rows) for note in notes if note.rows]
    errors = [error for note in notes for error in note.errors]
    if columns.are_appended:
        # Where this is done a second time, they are among those that the file has.
        errors = [*dict.fromkeys([*_read_errors(errors_path(dataset)), *errors])]
    with writing(dataset):
        if work.is_update:
            _move_parts(dataset, how, columns, work, notes, progress)
        for note in notes:
            if not note.rows:
                how.part(dataset, note.index).unlink(missing_ok=True)
        how.commit(dataset, columns.schema(), parts)
        _write_errors(errors_path(dataset), work.folder, errors)
        if not columns.are_appended:
            _write_listed(dataset, work, notes)
    rows = sum(note.rows for note in notes)
    kept, again, gone, dropped = (
        sum(note[name] for note in map(vars, notes))
        for name in ("kept", "again", "gone", "dropped")
    )
    if columns.are_appended:
        kept = rows
    dropped += work.totals.dropped
    changes = {"kept": kept, "added": rows - kept - again - gone, "again": again}
    about = about.changed(pictures=rows, errors=len(errors), gone=gone)
    write_about(dataset, about, work.folder)
    work.remove()
    return about, changes | {"gone": gone + dropped}


def _move_parts(
    dataset: Path,
    how: PartFormat,
    columns: RowColumns,
    work: WorkFolder,
    notes: Sequence[ShardNote],
    progress: Progress,
) -> None:
    """Put new parts in the place of those that there were, when all of them are done. From here on
    the dataset is not finished, until it is the new one. **Raises** `BadFile`."""
    if not work.is_moving:
        check_untouched(dataset, how, columns.names)
        work.begin_moving()
    about_path(dataset).unlink(missing_ok=True)
    if (dataset / INDICES).is_dir():
        progress.note(
            f"{dataset} had an index of other rows: build it again, `zoo search --index`."
        )
    for name in TABLE_FOLDERS:
        shutil.rmtree(dataset / name, ignore_errors=True)
    for note in notes:
        with suppress(FileNotFoundError):
            how.part(work.parts, note.index).replace(how.part(dataset, note.index))
    kept = {how.part(dataset, note.index) for note in notes}
    for each in how.part(dataset, 0).parent.glob(f"part-*{SUFFIX}"):
        if each not in kept:
            each.unlink()


def _write_listed(dataset: Path, work: WorkFolder, notes: Sequence[ShardNote]) -> None:
    """Write down what became of each shard, for a run that comes when pictures have changed."""
    with (
        placing(dataset / LISTED, work.folder) as path,
        path.open("w", encoding="utf-8") as file,
    ):
        for shard, note in zip(work.all_shards(), notes, strict=True):
            gone = note.rows if shard.kind == GONE else note.gone
            file.write(ListedShard(shard, note.rows, note.errors, gone).line)


def errors_path(dataset: Path) -> Path:
    """The file beside a dataset that says which pictures could not be read."""
    return dataset.with_suffix(".errors.parquet")


def _read_errors(path: Path) -> list[tuple[str, str]]:
    from pyarrow import parquet

    if not path.is_file():
        return []
    rows = parquet.read_table(path).to_pylist()
    return [(row["key"], row["reason"]) for row in rows]


def _write_errors(path: Path, work: Path, errors: Sequence[tuple[str, str]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    if not errors:
        path.unlink(missing_ok=True)
        return
    keys, reasons = zip(*errors, strict=True)
    with placing(path, work) as stage:
        parquet.write_table(pa.table({"key": keys, "reason": reasons}), stage)
