"""TIPS's two towers, each of which Google publishes as an `.npz` of its own.

The name of the one that takes texts ends in `_text.npz`, that of its other half in `_vision.npz`.
Together their keys are what transformers calls them in one file.
"""

import math
from dataclasses import replace
from pathlib import Path

from weights.files import Checkpoint
from weights.namings.tower_names import IMAGES, TEXTS
from weights.tensors import LazyTensor

TEMPERATURE = "temperature"

ENDS = {TEXTS: "_text.npz", IMAGES: "_vision.npz"}


def other_half(text: Path) -> Path | None:
    """The tower for images beside that for texts, if it is there."""
    if not text.name.endswith(ENDS[TEXTS]):
        return None
    path = text.with_name(text.name.removesuffix(ENDS[TEXTS]) + ENDS[IMAGES])
    return path if path.is_file() else None


def pairs_in(folder: Path) -> list[Path]:
    """The towers for texts in a folder whose other half is there too."""
    return [path for path in sorted(folder.glob("*" + ENDS[TEXTS])) if other_half(path)]


def both_towers(text: Checkpoint, vision: Checkpoint) -> Checkpoint:
    """Two towers as one checkpoint, whose path is their folder."""
    tensors = {IMAGES + key: tensor for key, tensor in vision.tensors.items()}
    # The temperature of both is in the file of the tower for texts.
    tensors |= {
        key if key == TEMPERATURE else TEXTS + key: tensor for key, tensor in text.tensors.items()
    }
    if TEMPERATURE in tensors:
        tensors[TEMPERATURE] = _scalar(tensors[TEMPERATURE])
    return Checkpoint(
        text.path.parent,
        "numpy archives of two towers",
        (*vision.files, *text.files),
        tensors,
    )


def _scalar(tensor: LazyTensor) -> LazyTensor:
    """One number, which may have an axis in the file."""
    if math.prod(tensor.shape) != 1:
        return tensor
    return replace(tensor, shape=(), read=lambda: tensor.read().reshape(()))
