"""How a dataset begins: what it will say of itself, and what is in its place already."""

from __future__ import annotations

import os
import re
import shutil
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path

from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.embed.about import (
    About,
    StatedNetwork,
    StatedSource,
    about_path,
    read_about,
    write_about,
)
from zoo.apps.embed.earlier_rows import LISTED, check_untouched, read_listed
from zoo.apps.embed.embed_request import VECTOR, EmbedRequest
from zoo.apps.embed.part_files import FOLDER, PartFormat
from zoo.apps.embed.picture_sources import GONE, HOLDERS, cut_shards
from zoo.apps.embed.row_columns import RowColumns
from zoo.apps.embed.work_folder import WORK, WorkFolder
from zoo.artifacts.choices import tower_variant
from zoo.common.errors import BadOutput
from zoo.common.staging import writing

FREE_FIELDS = {"pictures", "errors", "gone", "place", "appended"}
"""What may differ between two runs that make one dataset."""

SAME = "dtype", "draft", "batch", "shard", "sources"
"""What a run that appends a model has to be asked for as the one that made the dataset."""


def state_dataset(
    columns: RowColumns, asked: EmbedRequest, sources: tuple[StatedSource, ...]
) -> About:
    """Facts that the dataset will say of itself, but for counts."""
    network = columns.found
    manifest, place = network.manifest, str(network.place)
    towers = any(name.startswith(tower_variant("input_ids", "")) for name in manifest.variants)
    return About(
        model=manifest.model,
        variant=network.name,
        model_sha256=network.digest,
        place=place,
        dtype=columns.dtype,
        dim=columns.dim,
        size=manifest.size or (None if network.is_free else manifest.preprocessing.size),
        draft=asked.draft,
        batch=asked.batch,
        shard=asked.shard,
        preprocessing=manifest.preprocessing,
        similarity=manifest.similarity if towers else None,
        columns=columns.names,
        sources=sources,
    )


def state_appended(earlier: About, about: About, columns: RowColumns) -> tuple[About, RowColumns]:
    """Facts that a dataset will say of itself with the vectors of one model more, and their
    column."""
    same = earlier.changed(**{name: dict(about)[name] for name in SAME})
    if about.model_sha256 in {each.model_sha256 for each in earlier.networks}:
        return same, columns
    # A dot would be the path of a nested column.
    column = re.sub(r"\W", "_", f"{VECTOR}_{about.model}_{about.variant}", flags=re.ASCII)
    if column in {each.column for each in earlier.networks}:
        column += f"_{about.model_sha256[:8]}"
    stated = {name: dict(about)[name] for name in StatedNetwork.model_fields}
    network = StatedNetwork.model_validate(stated | {"column": column})
    whole = same.changed(appended=(*earlier.appended, network))
    return whole, replace(columns, column=column)


@dataclass(frozen=True)
class Begun:
    """How a dataset was begun: what a finished one says of itself, to which nothing is to be done,
    or None; and how many files there are that are no pictures, by how they end."""

    finished: About | None
    passed: dict[str, int] = field(default_factory=dict)


def begin_dataset(
    dataset: Path,
    how: PartFormat,
    about: About,
    asked: EmbedRequest,
    force: bool,
    progress: Progress,
) -> Begun:
    """List the shards of a dataset, unless that was done before.

    **Raises** `BadOutput` where something else is in its place.
    """
    work = WorkFolder(dataset)
    ours = work.folder.is_dir() or about_path(dataset).is_file()
    if force and ours:
        with writing(dataset):
            # What is left of a removal that is interrupted is still known to be ours.
            kept = WORK, about_path(dataset).name
            for each in sorted(dataset.iterdir(), key=lambda each: each.name in kept):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
    finished = read_about(dataset) if about_path(dataset).is_file() else None
    begun = read_about(work.folder) if work.is_there else None
    if finished is not None:
        _check_same(dataset, _with_files(finished, about), about)
    if begun is not None and finished is not None and work.is_update:
        same = begun.sources == about.sources and work.totals.prune == asked.prune
        begun = begun if same else None
    if begun is not None:
        _check_same(dataset, begun, about)
    if finished is not None and len(about.appended) <= len(finished.appended):
        if begun is None and not asked.append_model:
            return _begin_update(work, how, finished, about, asked.prune, progress)
        if not work.is_update:
            if begun is None or begun.appended == finished.appended:
                work.remove()
            return Begun(finished)
    if begun is not None:
        _check_latest(dataset, begun, about)
        work.sweep()
        return Begun(None, work.totals.passed)
    names = {WORK, FOLDER, *(os.listdir(dataset) if finished else ())}
    if os.path.lexists(dataset) and (not dataset.is_dir() or {*os.listdir(dataset)} - names):
        raise BadOutput(f"{dataset} is no dataset that was begun here: choose another place.")
    if finished is not None and finished.gone:
        raise BadOutput(
            f"{dataset} has {finished.gone:,} rows whose pictures are gone, of which another model "
            f"can make nothing: embed the pictures again with {parameter('prune')} first."
        )
    with writing(dataset):
        how.part(dataset, 0).parent.mkdir(parents=True, exist_ok=True)
    _list_shards(work, about, asked.prune, progress)
    write_about(work.folder, about, work.folder)
    return Begun(None, work.totals.passed)


def _list_shards(work: WorkFolder, about: About, prune: bool, progress: Progress) -> None:
    progress.stage("looking for pictures")
    work.remove()
    passed = Counter[str]()
    with writing(work.dataset):
        work.folder.mkdir(parents=True, exist_ok=True)
        work.list_shards(cut_shards(about.sources, about.shard, passed), passed, prune)


def _begin_update(
    work: WorkFolder,
    how: PartFormat,
    finished: About,
    about: About,
    prune: bool,
    progress: Progress,
) -> Begun:
    """List the shards of a dataset that there is, unless its pictures are those that it has rows
    of. **Raises** `BadFile` or `BadOutput`."""
    if not (work.dataset / LISTED).is_file():
        progress.note(
            f"{work.dataset} was made by a version that did not note its pictures: whether they "
            f"have changed is not known. {parameter('force')} makes it again."
        )
        return Begun(finished)
    _list_shards(work, about, prune, progress)
    passed = work.totals.passed
    before = (each.shard for each in read_listed(work.dataset) if each.shard.kind != GONE)
    pairs = zip_longest(before, work.all_shards())
    if all(one == other for one, other in pairs) and not (prune and finished.gone):
        work.remove()
        return Begun(finished, passed)
    if finished.appended:
        work.remove()
        columns = ", ".join(each.column for each in finished.appended)
        raise BadOutput(
            f"{work.dataset} was made of other pictures than there are now, and has {columns} of "
            f"them, too: make it again with {parameter('force')}, and then append these models."
        )
    check_untouched(work.dataset, how, about.columns)
    with writing(work.dataset):
        how.part(work.folder / "new", 0).parent.mkdir(parents=True)
        work.note_earlier(how)
    write_about(work.folder, about, work.folder)
    return Begun(None, passed)


def _with_files(finished: About, about: About) -> About:
    """What a dataset says of itself, with other files that hold pictures, such as tar files, where
    at least one is among those that it has rows of."""
    held = [
        {each.place for each in stated.sources if each.kind in HOLDERS.values()}
        for stated in (finished, about)
    ]
    others = [
        [each for each in stated.sources if each.kind not in HOLDERS.values()]
        for stated in (finished, about)
    ]
    same = others[0] == others[1] and (others[0] or held[0] & held[1])
    return finished.changed(sources=about.sources) if same else finished


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
    asked, before = (each.model_dump(exclude=FREE_FIELDS) for each in (about, earlier))
    different = [name for name in asked if asked[name] != before[name]]
    if not different:
        return
    if "model_sha256" in different:
        raise BadOutput(
            f"{dataset} holds vectors of {earlier.told}, not of {about.told}, and these cannot be "
            f"compared: give them a column of their own with {parameter('append_model')}, choose "
            f"another place, or replace it with {parameter('force')}."
        )
    raise BadOutput(
        f"{dataset} was made with other {' and '.join(different)}: choose another place, or "
        f"replace it with {parameter('force')}."
    )
