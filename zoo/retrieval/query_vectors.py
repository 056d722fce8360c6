"""Vectors of what is searched for, by the very model that made those of the dataset."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zoo.embedding.network import find_network
from zoo.errors import BadFile, BadRequest
from zoo.hub.session import VisionModel, is_built, open_file, open_folder
from zoo.images.pixel_values import Float32
from zoo.retrieval.vector_table import VectorTable, unit_rows

if TYPE_CHECKING:
    from zoo.images.pictures import Picture


def picture_vector(table: VectorTable, picture: Picture, place: Path | None) -> Float32:
    """The vector `[1, dim]` of a picture, at length 1. **Raises** a `ZooError`."""
    model = dataset_model(table, place)
    if any(each.name == "input_ids" for each in model.variant.inputs):
        return model.image([picture])
    return unit_rows(np.array(model([picture])["pooler_output"], np.float32))


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
    return dataset_model(table, place).text([text])


def dataset_model(table: VectorTable, place: Path | None) -> VisionModel:
    """The model of a dataset, from a file or folder, or from where the dataset notes it.

    **Raises** `BadFile` where there is none or another one: that is told by the digest of its file.
    """
    made = table.network
    given = Path(made.place) if place is None else place
    is_file = given.suffix == ".onnx"
    if not (given.is_file() if is_file else is_built(given)):
        where = f"{given}, where {table.path} notes it," if place is None else f"{given}"
        raise BadFile(
            f"{where} has no model: name the file or folder of {made.model} that made the vectors "
            "with --model."
        )
    found = find_network(os.fspath(given), made.variant, offline=True)
    folder = found.path.parents[len(Path(found.variant.file).parts) - 1]
    listed = (found.manifest.listed[name] for name in found.variant.files)
    if found.digest != made.model_sha256 or not all(file.is_at(folder) for file in listed):
        raise BadFile(
            f"{given} is of another model than {table.path}, whose vectors are of "
            f"{made.told}: name that with --model."
        )
    return open_file(given) if is_file else open_folder(given, made.variant)
