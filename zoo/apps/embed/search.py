"""The rows of a dataset that are nearest to a picture, a text or another row, and groups of rows
that are nearly the same."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weights.opening import open_regular
from weights.parameters import parameter
from weights.progress import Progress
from zoo.apps.embed.index import INDEXED_ROWS, count_unindexed_rows, read_index
from zoo.apps.embed.network import FoundNetwork, Runner, find_network, lane_session
from zoo.apps.embed.requests import COUNT, KEY, MOST_ROWS, FoundRow, SearchRequest
from zoo.apps.embed.vector_table import Rows, VectorTable, unit_rows
from zoo.artifacts.find import is_built_folder
from zoo.artifacts.session import open_file, open_folder
from zoo.common.errors import BadFile, BadRequest
from zoo.images.pictures import check_picture_header, pictures, read_picture, to_read_picture
from zoo.images.pixel_values import Float32

if TYPE_CHECKING:
    from zoo.images.pictures import Picture


def search_table(table: VectorTable, request: SearchRequest) -> list[FoundRow]:
    """Return the rows of an open dataset that are most similar to the query of a request, best
    first.

    A row that is the query is left out. A dataset with more than `INDEXED_ROWS` rows is searched
    with its index, if it has one.

    **Raises** a `ZooError`: `BadRequest` unless there is exactly one query and the count is from 1
    to `MOST_ROWS`.
    """
    if sum(query is not None for query in (request.picture, request.text, request.key)) != 1:
        raise BadRequest("give one thing to search for: a picture, a text or a key.")
    count = COUNT if request.count is None else request.count
    if not 0 < count <= MOST_ROWS:
        raise BadRequest(f"got the count {count}: ask for 1 to {MOST_ROWS:,} rows.")
    query_row = None if request.key is None else table.row_of(request.key)
    query = _query_vector(table, request, query_row)
    index = read_index(table) if table.count > INDEXED_ROWS else None
    # One more, because the row that is the query is left out.
    limit = count + (query_row is not None)
    nearest = table.nearest(query, limit, index.probes if index else None, request.where)
    pairs = zip(nearest.rows.tolist(), nearest.cosines.tolist(), strict=True)
    matches = [(row, cosine) for row, cosine in pairs if row != query_row][:count]
    records = table.take([row for row, _ in matches], (KEY, "width", "height"))
    return [
        FoundRow(str(record[KEY]), cosine, record.get("width"), record.get("height"), row)
        for (row, cosine), record in zip(matches, records, strict=True)
    ]


def describe_index_use(table: VectorTable) -> str:
    """Return a remark on how a large dataset is searched; an empty text for a small one.

    A dataset is large if it has more than `INDEXED_ROWS` rows.
    """
    if table.count <= INDEXED_ROWS:
        return ""
    index = read_index(table)
    if index is None:
        advice = f"`zoo search {table.path} --index` makes it faster"
        return f"all {table.count:,} rows were compared: {advice}"
    later = count_unindexed_rows(table)
    return (
        f"by the index, which finds {index.recall:.1%} of the ten nearest rows that an exact "
        f"search finds{f'; it lacks {later:,} rows, which were compared' if later else ''}"
    )


def _query_vector(table: VectorTable, request: SearchRequest, row: int | None) -> Float32:
    """Return the vector `[dim]`, of length 1, of the row, the text or the picture of a request."""
    if row is not None:
        vector: Float32 = table.vectors([row])[0]
        return vector
    if request.text is not None:
        vectors = _text_vector(table, request.text, request.model)
    else:
        assert request.picture is not None
        vectors = _picture_vector(table, request.picture, request.model)
    if vectors.shape != (1, table.dim):
        raise BadRequest(
            f"the model gives vectors of {vectors.shape[-1]} numbers, and those of {table.path} "
            f"have {table.dim}: name the model that made them with {parameter('model')}."
        )
    return np.ascontiguousarray(vectors[0], np.float32)


def _picture_vector(table: VectorTable, picture: Picture, model: Path | None) -> Float32:
    """Return the vector `[1, dim]` of a picture. It is read in the same way as the pictures of the
    rows."""
    network = _find_table_network(table, model)
    smallest = network.smallest_sides if table.description.draft else None
    if isinstance(picture, str | os.PathLike):
        # A file without the header of a picture is refused before memory for all of it is taken.
        check_picture_header(Path(picture))
        with open_regular(picture) as file:
            read = read_picture(file.read(), repr(os.fspath(picture)), smallest)
    else:
        read = to_read_picture(pictures(picture)[0], smallest)
    runner = Runner(network, lane_session(network.path), 1)
    outputs = runner.run([network.make_feeds(read)], ["pooler_output"])
    return unit_rows(np.array(outputs["pooler_output"], np.float32))


def _text_vector(table: VectorTable, text: str, model: Path | None) -> Float32:
    """Return the vector `[1, dim]` of a text.

    **Raises** a `ZooError`, also if the model of the dataset takes no texts.
    """
    if table.network.similarity is None:
        raise BadRequest(
            f"{table.path} is of {table.network.model}, which knows pictures alone: search for a "
            "picture, or make a dataset of a model with a tower for texts, as "
            "siglip2_vitb16_224_dual."
        )
    path = _find_table_network(table, model).named_path
    is_file = path.suffix == ".onnx"
    loaded = open_file(path) if is_file else open_folder(path, table.network.variant)
    return loaded.text([text])


def _find_table_network(table: VectorTable, model: Path | None) -> FoundNetwork:
    """Return the network that made the vectors of a dataset.

    **Arguments:** `model` is its file or folder; None is the path that the dataset notes.
    **Raises** `BadFile` if there is no model, or if the digests of its files are other ones.
    """
    stated = table.network
    path = Path(stated.place) if model is None else model
    if not (path.is_file() if path.suffix == ".onnx" else is_built_folder(path)):
        origin = f"{path}, where {table.path} notes it," if model is None else f"{path}"
        raise BadFile(
            f"{origin} has no model: name the file or folder of {stated.model} that made the "
            f"vectors with {parameter('model')}."
        )
    network = find_network(os.fspath(path), stated.variant, offline=True)
    folder = network.path.parents[len(Path(network.variant.file).parts) - 1]
    files = (network.manifest.files_by_name[name] for name in network.variant.files)
    if network.digest != stated.model_sha256 or not all(
        file.is_intact_in(folder) for file in files
    ):
        raise BadFile(
            f"{path} is of another model than {table.path}, whose vectors are of "
            f"{stated.label}: name that with {parameter('model')}."
        )
    return network


@dataclass(frozen=True)
class DuplicateGroup:
    """Rows that are connected by pairs with a large cosine.

    - `rows`: the offsets of the rows, in ascending order.
    - `cosines`: for each of these rows, its largest cosine with another row.
    """

    rows: tuple[int, ...]
    cosines: tuple[float, ...]


def find_duplicates(
    table: VectorTable, above: float, where: str | None, progress: Progress
) -> list[DuplicateGroup]:
    """Return the groups of near duplicates, the largest group first.

    Two rows are near duplicates if the cosine of their vectors is at least `above`. A group
    contains all rows that such pairs connect. Every row is compared with every other row, so that
    the time grows with the square of the number of rows. Two blocks of vectors are in memory at a
    time.

    **Arguments:** `where` is an SQL condition; rows for which it is not true are ignored.
    **Raises** `BadRequest` if Lance rejects the condition, or `BadFile`.
    """
    row_count = table.table.count_rows()
    groups, nearest = np.arange(row_count), np.full(row_count, -1, np.float32)
    for rows, vectors in table.blocks(where):
        first, last = int(rows[0]), int(rows[-1])
        progress.stage(f"comparing rows {first:,} to {last:,} of {row_count:,}")
        for other_rows, other_vectors in table.blocks(where):
            if other_rows[-1] <= first:
                continue
            cosines = vectors @ other_vectors.T
            left, right = np.nonzero((cosines >= above) & (rows[:, None] < other_rows))
            pairs = rows[left], other_rows[right]
            for side in pairs:
                np.maximum.at(nearest, side, cosines[left, right])
            if len(left):
                groups = _join_groups(groups, *pairs)
    return _collect_groups(groups, nearest)


def _join_groups(groups: Rows, left: Rows, right: Rows) -> Rows:
    """Return the number of the group of each row after the groups of pairs of rows are joined."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = (np.ones(len(left), np.bool_), (groups[left], groups[right]))
    graph = coo_array(pairs, shape=(len(groups), len(groups)))
    _, components = connected_components(graph, directed=False)
    joined: Rows = components[groups]
    return joined


def _collect_groups(groups: Rows, nearest: np.ndarray) -> list[DuplicateGroup]:
    """Return the groups of the rows that have a near duplicate: those with `nearest` above -1."""
    rows = np.flatnonzero(nearest > -1)
    rows = rows[np.argsort(groups[rows], kind="stable")]
    starts = np.flatnonzero(np.diff(groups[rows])) + 1
    parts = np.split(rows, starts) if len(rows) else []
    found = (DuplicateGroup(tuple(part.tolist()), tuple(nearest[part].tolist())) for part in parts)
    return sorted(found, key=lambda group: (-len(group.rows), group.rows))
