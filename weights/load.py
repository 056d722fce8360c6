"""From what a user names to weights for a model."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from weights.distributions import Shape
from weights.errors import BadValues
from weights.mapping import apply, plan
from weights.meta import DINOV3_VIT
from weights.tensors import LazyArrays, LazyTensor, Provenance, Weights


def meta_weights(
    path: Path, file: Mapping[str, LazyTensor], shapes: Mapping[str, Shape]
) -> Weights:
    """Weights from a checkpoint of Meta's for a model with these leaves.

    **Arguments:** where the file lies, what `readers.read_pth` found in it, and the path and
    shape of each leaf.

    **Raises** `MappingError` where the file does not fit, `BadValues` where a mask is NaN.
    """
    tensors = apply(plan(DINOV3_VIT, shapes), file)
    check_masks(file)
    return Weights(LazyArrays(tensors), Provenance("meta", path.name, sha256(path)))


def check_masks(file: Mapping[str, LazyTensor]) -> None:
    """Refuse bias masks of NaN: the value before initialisation, not one from training."""
    keys = (key for key in file if key.endswith(".bias_mask"))
    bad = [key for key in keys if np.isnan(file[key].read()).any()]
    if bad:
        raise BadValues(
            f"{len(bad)} masks hold NaN ({', '.join(bad[:3])}…), so the file was saved before "
            "its model was initialised: give a checkpoint saved after training."
        )


def sha256(path: Path) -> str:
    """Digest of a file, read in pieces."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
