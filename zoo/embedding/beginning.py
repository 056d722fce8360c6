"""How a dataset begins: what it will say of itself, and what is in its place already."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

from weights.progress import Progress
from zoo.embedding.about import ABOUT, About, StatedNetwork, StatedSource, read_about, write_about
from zoo.embedding.embed_request import VECTOR, EmbedRequest
from zoo.embedding.part_files import PartFormat
from zoo.embedding.picture_sources import cut_shards
from zoo.embedding.row_columns import RowColumns
from zoo.embedding.work_folder import WORK, WorkFolder
from zoo.errors import BadOutput
from zoo.files.staging import writing

TEXT_TOWER = "text_"  # how the variants of one begin

FREE_FIELDS = {"pictures", "errors", "place", "appended"}
"""What may differ between two runs that make one dataset."""

SAME = "dtype", "draft", "batch", "shard", "sources"
"""What a run that appends a model has to be asked for as the one that made the dataset."""


def state_dataset(
    columns: RowColumns, asked: EmbedRequest, sources: tuple[StatedSource, ...]
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
        draft=asked.draft,
        batch=asked.batch,
        shard=asked.shard,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if towers else None,
        columns=columns.names,
        sources=sources,
    )


def state_appended(earlier: About, about: About, columns: RowColumns) -> tuple[About, RowColumns]:
    """What a dataset will say of itself with the vectors of one model more, and their column."""
    same = earlier.changed(**{name: dict(about)[name] for name in SAME})
    if about.model_sha256 in {each.model_sha256 for each in earlier.networks}:
        return same, columns
    # A dot would be the path of a nested column.
    column = re.sub(r"\W", "_", f"{VECTOR}_{about.model}_{about.variant}", flags=re.ASCII)
    if column in {each.column for each in earlier.networks}:
        column += f"_{about.model_sha256[:8]}"
    told = {name: dict(about)[name] for name in StatedNetwork.model_fields}
    network = StatedNetwork.model_validate(told | {"column": column})
    whole = same.changed(appended=(*earlier.appended, network))
    return whole, replace(columns, column=column)


def begin_dataset(
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
    finished = read_about(dataset) if (dataset / ABOUT).is_file() else None
    begun = read_about(work.folder) if work.is_there else None
    for earlier in filter(None, (finished, begun)):
        _check_same(dataset, earlier, about)
    if finished is not None and len(about.appended) <= len(finished.appended):
        if begun is None or begun.appended == finished.appended:
            work.remove()
        return finished
    if begun is not None:
        _check_latest(dataset, begun, about)
        work.sweep()
        return None
    known = {WORK, how.folder, *(os.listdir(dataset) if finished else ())}
    if os.path.lexists(dataset) and (not dataset.is_dir() or {*os.listdir(dataset)} - known):
        raise BadOutput(f"{dataset} is no dataset that was begun here: choose another place.")
    told.stage("looking for pictures")
    with writing(dataset):
        for folder in (work.folder, how.part(dataset, 0).parent):
            folder.mkdir(parents=True, exist_ok=True)
        work.list_shards(cut_shards(about.sources, about.shard, Counter()))
    write_about(work.folder, about, work.folder)
    return None


def _check_latest(dataset: Path, begun: About, about: About) -> None:
    """**Raises** `BadOutput` where another model's vectors are being appended."""
    latest = begun.networks[-1]
    if latest.model_sha256 != about.networks[-1].model_sha256:
        raise BadOutput(
            f"{dataset} is being given the vectors of {latest.told}: finish that first, by the "
            "command that began it."
        )


def _check_same(dataset: Path, earlier: About, about: About) -> None:
    """**Raises** `BadOutput` where a dataset is one of other pictures or another model."""
    asked, found = (each.model_dump(exclude=FREE_FIELDS) for each in (about, earlier))
    different = [name for name in asked if asked[name] != found[name]]
    if not different:
        return
    if "model_sha256" in different:
        raise BadOutput(
            f"{dataset} holds vectors of {earlier.told}, not of {about.told}, and these cannot be "
            "compared: give them a column of their own with --append-model, choose another place, "
            "or replace it with --force."
        )
    raise BadOutput(
        f"{dataset} was made with other {' and '.join(different)}: choose another place, or "
        "replace it with --force."
    )
