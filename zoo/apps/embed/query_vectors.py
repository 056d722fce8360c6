"""Vectors of what is searched for, by the very model that made those of the dataset."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from weights.opening import open_regular
from weights.parameters import parameter
from zoo.apps.embed.network import FoundNetwork, Runner, find_network, lane_session
from zoo.apps.embed.vector_table import VectorTable, unit_rows
from zoo.artifacts.find import is_built
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
    if not (path.is_file() if is_file else is_built(path)):
        where = f"{path}, where {table.path} notes it," if place is None else f"{path}"
        raise BadFile(
            f"{where} has no model: name the file or folder of {made.model} that made the vectors "
            f"with {parameter('model')}."
        )
    network = find_network(os.fspath(path), made.variant, offline=True)
    folder = network.path.parents[len(Path(network.variant.file).parts) - 1]
    listed = (network.manifest.listed[name] for name in network.variant.files)
    if network.digest != made.model_sha256 or not all(file.is_at(folder) for file in listed):
        raise BadFile(
            f"{path} is of another model than {table.path}, whose vectors are of "
            f"{made.told}: name that with {parameter('model')}."
        )
    return network, path
