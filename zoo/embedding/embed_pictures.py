"""`zoo.embed`: a dataset with a vector of every picture."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weights.progress import Progress, Quiet
from zoo.embedding.about import ABOUT, About, Dtype, StatedSource, read_about, write_about
from zoo.embedding.columns import Columns, Extra
from zoo.embedding.crews import cluster_crew, local_crew, run_shards
from zoo.embedding.network import find_network
from zoo.embedding.part_files import PartFormat, part_format
from zoo.embedding.picture_sources import cut, state_sources
from zoo.embedding.shard_work import Recipe
from zoo.embedding.tally import Tally
from zoo.embedding.work_folder import WORK, ShardNote, WorkFolder
from zoo.errors import BadOutput, BadRequest
from zoo.files.staging import locked_output, replacing, writing

SHARD = 1024
"""Pictures in a part, which is lost when a process is killed; Lance calls it a fragment."""

TEXT_TOWER = "text_"  # how the variants of one begin

FREE = {"pictures", "errors", "place"}
"""What may differ between two runs that make one dataset."""


@dataclass(frozen=True)
class Embedded:
    """What a run made of pictures.

    `pictures` are the rows of the dataset, and `computed` those of this run; `seconds` are those of
    threads by stage, and `cores` how many were busy on average, with `wall` the time of it all.
    """

    dataset: Path
    pictures: int
    errors: int
    computed: int = 0
    wall: float = 0.0
    cores: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Pictures a second."""
        return self.computed / self.wall if self.wall else 0.0


def embed(
    sources: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    model: str | os.PathLike[str],
    out: str | os.PathLike[str],
    precision: str = "fp32",
    dtype: Dtype = "float16",
    extra: Sequence[Extra] = (),
    draft: bool = True,
    batch: int = 1,
    shard: int = SHARD,
    threads: int | None = None,
    scheduler: str | None = None,
    force: bool = False,
    offline: bool = False,
    progress: Progress | None = None,
) -> Embedded:
    """Make a dataset with a row for each picture, or go on with one that was begun.

    **Arguments:**

    - `sources`: folders, lists of paths (`.txt`), patterns, tar files, Parquet files, or URLs of
      these.
    - `model`: a name, a folder of `zoo build` or `zoo pull`, or an .onnx file with its manifest.
    - `out`: the dataset, a folder that ends in `.lance` or `.parquet`.
    - `precision`: the variant of the folder.
    - `dtype`: of the vectors: float16 or float32.
    - `extra`: further columns: `patches`, `logits`, `best` and `thumbnail`.
    - `draft`: make large pictures smaller while they are decoded, to twice what the network takes.
    - `batch`: pictures that run together; on a CPU one at a time is fastest.
    - `shard`: pictures in a part of the dataset.
    - `threads`: cores to use; all by default.
    - `scheduler`: the address of a Dask scheduler, on whose workers the pictures are embedded.
    - `force`: replace a dataset of something else.
    - `offline`: never ask the hub.

    **Raises** a `ZooError` or `WeightsError`. A picture that cannot be read is none: it is a row of
    `NAME.errors.parquet` beside the dataset.

    >>> zoo.embed("photographs/", model="artifacts/dinov3_vits16", out="vectors.lance").pictures
    1000
    """
    began, told = time.perf_counter(), progress or Quiet()
    if min(batch, shard, 1 if threads is None else threads) < 1:
        raise BadRequest("batch, shard and threads are counts: give numbers from 1.")
    dataset, named = Path(os.path.abspath(out)), os.fspath(model)
    how, found = part_format(dataset), find_network(named, precision, offline)
    columns = Columns(found, dtype, tuple(extra))
    columns.check()
    several = [sources] if isinstance(sources, str | os.PathLike) else sources
    about = _about(columns, draft, batch, shard, state_sources([os.fspath(x) for x in several]))
    place, digest = str(found.place), found.digest
    recipe = Recipe(place, precision, digest, str(dataset), dtype, tuple(extra), draft, batch)
    with locked_output(dataset, told):
        if finished := _begin(dataset, about, force, told):
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


def _about(
    columns: Columns, draft: bool, batch: int, shard: int, sources: tuple[StatedSource, ...]
) -> About:
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
        draft=draft,
        batch=batch,
        shard=shard,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if towers else None,
        columns=columns.names,
        sources=sources,
    )


def _begin(dataset: Path, about: About, force: bool, told: Progress) -> About | None:
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
        return None
    if os.path.lexists(dataset) and (not dataset.is_dir() or {*os.listdir(dataset)} - {WORK}):
        raise BadOutput(f"{dataset} is no dataset that was begun here: choose another place.")
    told.stage("looking for pictures")
    with writing(dataset):
        work.folder.mkdir(parents=True, exist_ok=True)
        work.list_shards(cut(about.sources, about.shard))
    write_about(work.folder, about)
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


def _finish(dataset: Path, how: PartFormat, columns: Columns, about: About) -> About:
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
        _write_errors(errors_path(dataset), notes)
    about = about.changed(pictures=sum(rows for _, rows in parts), errors=errors)
    write_about(dataset, about)
    work.remove()
    return about


def errors_path(dataset: Path) -> Path:
    """The file beside a dataset that says which pictures could not be read."""
    return dataset.with_suffix(".errors.parquet")


def _write_errors(path: Path, notes: Sequence[ShardNote]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    found = [error for note in notes for error in note.errors]
    if not found:
        path.unlink(missing_ok=True)
        return
    keys, reasons = zip(*found, strict=True)
    with replacing(path) as stage:
        parquet.write_table(pa.table({"key": keys, "reason": reasons}), stage)
