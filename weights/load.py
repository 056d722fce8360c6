"""From a checkpoint to weights for a model."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from weights.checkpoint import Checkpoint
from weights.distributions import Shape
from weights.errors import BadValues
from weights.mapping import Naming, apply, filled, plan
from weights.tensors import FLOATS, LazyArrays, LazyTensor, Provenance, Weights

PERIODS = "local_pos_embed.periods"


def load_weights(
    checkpoint: Checkpoint,
    naming: Naming,
    shapes: Mapping[str, Shape],
    digest: str | None = None,
) -> Weights:
    """Weights from a checkpoint for a model whose leaves have these paths and shapes.

    **Arguments:** what `open_checkpoint` found, whose names it uses, the path and shape of each
    leaf, and the checkpoint's sha256 if somebody computed it already.

    **Raises** `MappingError` where the file does not fit, `BadValues` where a mask is NaN.
    """
    file = naming.normalise(checkpoint.tensors)
    plans = plan(naming.rules, shapes)
    tensors = apply(naming, plans, file)
    check_masks(file)
    made_up = filled(plans, file)
    provenance = Provenance(
        kind=naming.name,
        name=checkpoint.path.name,
        sha256=digest or checkpoint.sha256(),
        rope_periods=_origin_of_periods(shapes, made_up),
    )
    missing = tuple(name for name in made_up if name != PERIODS)
    return Weights(LazyArrays(tensors), provenance, missing)


def _origin_of_periods(shapes: Mapping[str, Shape], made_up: Collection[str]) -> str | None:
    if PERIODS not in shapes:
        return None
    return "float32" if PERIODS in made_up else "file"


def check_masks(file: Mapping[str, LazyTensor]) -> None:
    """Refuse bias masks of NaN: the value before initialisation, not one from training."""
    keys = [key for key in file if key.endswith(".bias_mask") and file[key].dtype in FLOATS]
    bad = [key for key in keys if np.isnan(file[key].read()).any()]
    if bad:
        raise BadValues(
            f"{len(bad)} masks hold NaN ({', '.join(bad[:3])}…), so the file was saved before "
            "its model was initialised: give a checkpoint saved after training."
        )
