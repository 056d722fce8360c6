"""The rows of an open dataset that are nearest to a picture, a text, or another row."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weights.opening import open_regular
from weights.parameters import parameter
from zoo.apps.embed.index import INDEXED_ROWS, read_index, unindexed_rows
from zoo.apps.embed.network import FoundNetwork, Runner, find_network, lane_session
from zoo.apps.embed.search_call import COUNT, MOST_ROWS, FoundRow, SearchRequest
from zoo.apps.embed.vector_table import KEY, VectorTable, unit_rows
from zoo.artifacts.find import is_built_folder
from zoo.artifacts.session import open_file, open_folder
from zoo.common.errors import BadFile, BadRequest
from zoo.images.pictures import (
    ReadPicture,
    Sides,
    check_picture_header,
    pictures,
    read_picture,
    reduced_picture,
)
from zoo.images.pixel_values import Float32

if TYPE_CHECKING:
    from zoo.images.pictures import Picture


def search_table(table: VectorTable, request: SearchRequest) -> list[FoundRow]:
    """Return the rows of an open dataset that are most like a picture, a text or a row."""
    if sum(each is not None for each in (request.picture, request.text, request.key)) != 1:
        raise BadRequest("give one thing to search for: a picture, a text or a key.")
    count = COUNT if request.count is None else request.count
    if not 0 < count <= MOST_ROWS:
        raise BadRequest(f"got the count {count}: ask for 1 to {MOST_ROWS:,} rows.")
    own = None if request.key is None else table.row_of(request.key)
    query, limit = _query(table, request, own), count + (own is not None)
    index = read_index(table) if table.count > INDEXED_ROWS else None
    near = table.nearest(query, limit, index.probes if index else None, request.where)
    pairs = zip(near.rows.tolist(), near.cosines.tolist(), strict=True)
    kept = [(row, cosine) for row, cosine in pairs if row != own][:count]
    values = table.take([row for row, _ in kept], (KEY, "width", "height"))
    return [
        FoundRow(str(each[KEY]), cosine, each.get("width"), each.get("height"), row)
        for (row, cosine), each in zip(kept, values, strict=True)
    ]


def _query(table: VectorTable, request: SearchRequest, own: int | None) -> Float32:
    """Return the vector `[dim]` of the picture, text or row that is searched for."""
    if own is not None:
        vector: Float32 = table.vectors([own])[0]
        return vector
    if request.text is not None:
        vectors = text_vector(table, request.text, request.model)
    else:
        assert request.picture is not None
        vectors = picture_vector(table, request.picture, request.model)
    if vectors.shape != (1, table.dim):
        raise BadRequest(
            f"the model gives vectors of {vectors.shape[-1]} numbers, and those of {table.path} "
            f"have {table.dim}: name the model that made them with {parameter('model')}."
        )
    return np.ascontiguousarray(vectors[0], np.float32)


def told_index(table: VectorTable) -> str:
    """Return a remark on how a large dataset is searched; empty for a small one."""
    if table.count <= INDEXED_ROWS:
        return ""
    index = read_index(table)
    if index is None:
        advice = f"`zoo search {table.path} --index` makes it faster"
        return f"all {table.count:,} rows were compared: {advice}"
    later = unindexed_rows(table)
    return (
        f"by the index, which finds {index.recall:.1%} of the ten nearest rows that an exact "
        f"search finds{f'; it lacks {later:,} rows, which were compared' if later else ''}"
    )


def picture_vector(table: VectorTable, picture: Picture, place: Path | None) -> Float32:
    """The vector `[1, dim]` of a picture, at length 1. **Raises** a `ZooError`."""
    network, _ = _dataset_network(table, place)
    values = network.values(_read(picture, network.least if table.about.draft else None))
    runner = Runner(network, lane_session(network.path), 1)
    vectors = runner.run([values], ["pooler_output"])["pooler_output"]
    return unit_rows(np.array(vectors, np.float32))


def _read(picture: Picture, least: Callable[[int, int], Sides] | None) -> ReadPicture:
    """A picture as those of the rows were read. **Raises** `BadRequest`."""
    if not isinstance(picture, str | os.PathLike):
        (image,) = pictures(picture)
        return reduced_picture(image, least)
    name = repr(os.fspath(picture))
    check_picture_header(Path(picture))  # before there is memory for all of it
    with open_regular(picture) as file:
        return read_picture(file.read(), name, least)


def text_vector(table: VectorTable, text: str, place: Path | None) -> Float32:
    """The vector `[1, dim]` of a text, at length 1.

    **Raises** a `ZooError`, also for a dataset whose model knows no texts.
    """
    if table.network.similarity is None:
        raise BadRequest(
            f"{table.path} is of {table.network.model}, which knows pictures alone: search for a "
            "picture, or make a dataset of a model with a tower for texts, as "
            "siglip2_vitb16_224_dual."
        )
    _, path = _dataset_network(table, place)
    is_file = path.suffix == ".onnx"
    model = open_file(path) if is_file else open_folder(path, table.network.variant)
    return model.text([text])


def _dataset_network(table: VectorTable, place: Path | None) -> tuple[FoundNetwork, Path]:
    """The network of a dataset, and the file or folder that it is in.

    **Raises** `BadFile` where there is none or another one: that is told by the digest of its file.
    """
    made = table.network
    path = Path(made.place) if place is None else place
    is_file = path.suffix == ".onnx"
    if not (path.is_file() if is_file else is_built_folder(path)):
        where = f"{path}, where {table.path} notes it," if place is None else f"{path}"
        raise BadFile(
            f"{where} has no model: name the file or folder of {made.model} that made the vectors "
            f"with {parameter('model')}."
        )
    network = find_network(os.fspath(path), made.variant, offline=True)
    folder = network.path.parents[len(Path(network.variant.file).parts) - 1]
    files = (network.manifest.files_by_name[name] for name in network.variant.files)
    if network.digest != made.model_sha256 or not all(file.is_intact_in(folder) for file in files):
        raise BadFile(
            f"{path} is of another model than {table.path}, whose vectors are of "
            f"{made.told}: name that with {parameter('model')}."
        )
    return network, path
