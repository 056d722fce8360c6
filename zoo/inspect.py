"""`zoo weights inspect`: what a checkpoint is, told without reading its tensors."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from weights import Checkpoint, open_checkpoint
from weights.load import PERIODS
from weights.mapping import Naming
from zoo.checkpoint import recognise, variants


@dataclass(frozen=True)
class Inspection:
    """A checkpoint in a few words. `models` are those of the zoo that it fits.

    `has_periods` says whether it holds rotary periods; None if its model has no use for any.
    """

    checkpoint: Checkpoint
    naming: str
    models: tuple[str, ...]
    parameters: int
    bytes: int
    dtypes: dict[str, int]
    has_periods: bool | None


def inspect(path: Path) -> Inspection:
    """**Raises** a `WeightsError` if it is no checkpoint of a model in the zoo."""
    checkpoint = open_checkpoint(path)
    naming = recognise(checkpoint)
    tensors = checkpoint.tensors.values()
    return Inspection(
        checkpoint=checkpoint,
        naming=naming.name,
        models=tuple(variants(checkpoint)),
        parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        bytes=sum(file.stat().st_size for file in checkpoint.files),
        dtypes=dict(Counter(tensor.dtype for tensor in tensors)),
        has_periods=_has_periods(checkpoint, naming),
    )


def _has_periods(checkpoint: Checkpoint, naming: Naming) -> bool | None:
    if all(rule.target != PERIODS for rule in naming.rules):
        return None
    return any(naming.leaf(key) == PERIODS for key in checkpoint.tensors)
