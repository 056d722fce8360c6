"""TIPS's two towers, each of which Google publishes in an `.npz` file of its own.

The file of the text tower ends in `_text.npz`, that of the image tower in `_vision.npz`. The joined
keys have the names that transformers uses for both towers in one file.
"""

import math
from dataclasses import replace
from pathlib import Path

from weights.files import Checkpoint
from weights.namings.tower_names import IMAGES, TEXTS
from weights.tensors import LazyTensor

TEMPERATURE = "temperature"

FILE_ENDINGS = {TEXTS: "_text.npz", IMAGES: "_vision.npz"}


def find_vision_tower(text: Path) -> Path | None:
    """Return the file of the image tower that belongs to the file of a text tower.

    Return None if `text` does not have the name of a text tower's file, or if the other file does
    not exist.
    """
    if not text.name.endswith(FILE_ENDINGS[TEXTS]):
        return None
    path = text.with_name(text.name.removesuffix(FILE_ENDINGS[TEXTS]) + FILE_ENDINGS[IMAGES])
    return path if path.is_file() else None


def find_text_towers(folder: Path) -> list[Path]:
    """Return the files of text towers in a folder that also has their image tower, sorted by
    name."""
    return [
        path for path in sorted(folder.glob("*" + FILE_ENDINGS[TEXTS])) if find_vision_tower(path)
    ]


def join_towers(text: Checkpoint, vision: Checkpoint) -> Checkpoint:
    """Return one checkpoint with the tensors of a text tower and of an image tower, whose names get
    a prefix for each tower (`TEXTS`, `IMAGES`). The temperature of the pair gets none. Its path is
    their folder."""
    tensors = {IMAGES + key: tensor for key, tensor in vision.tensors.items()}
    # The temperature of the pair is in the file of the text tower.
    tensors |= {
        key if key == TEMPERATURE else TEXTS + key: tensor for key, tensor in text.tensors.items()
    }
    if TEMPERATURE in tensors:
        tensors[TEMPERATURE] = _as_scalar(tensors[TEMPERATURE])
    return Checkpoint(
        text.path.parent,
        "numpy archives of two towers",
        (*vision.files, *text.files),
        tensors,
    )


def _as_scalar(tensor: LazyTensor) -> LazyTensor:
    """Return a tensor with a single number as a tensor without axes. Other tensors are returned
    unchanged."""
    if math.prod(tensor.shape) != 1:
        return tensor
    return replace(tensor, shape=(), read=lambda: tensor.read().reshape(()))
