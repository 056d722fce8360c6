"""From a checkpoint to weights for a model; whose names a checkpoint uses."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from weights.errors import BadValues, NotACheckpoint
from weights.files import Checkpoint, hold_to_name
from weights.initializers import Shape
from weights.inverse import find_missing_leaves
from weights.mapping import Naming, apply, mismatches, plan
from weights.tensors import FLOATS, LazyArrays, LazyTensor, Provenance, Weights
from weights.views import narrowed, views_of

PERIODS = "local_pos_embed.periods"


def load_weights(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Weights:
    """Weights from a checkpoint for a model whose leaves have these paths and shapes.

    **Arguments:** what `open_checkpoint` found, whose names it uses, and the path and shape of each
    leaf.

    **Raises** `MappingError` where the file does not fit, `BadValues` where a mask is NaN,
    `WrongDigest` where the file's name promises another digest.
    """
    digest = checkpoint.sha256()
    hold_to_name(checkpoint.path, digest)
    weights = map_weights(checkpoint, naming, shapes)
    return replace(weights, provenance=replace(weights.provenance, sha256=digest))


def map_weights(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Weights:
    """Weights as of `load_weights`, whose digest is still to be looked at before use."""
    file = narrowed(checkpoint, naming, shapes).tensors
    plans = plan(naming.rules, shapes)
    tensors = apply(naming, plans, file)
    check_masks(file)
    made_up = find_missing_leaves(plans, file)
    rotary = {path for path in shapes if path.endswith(PERIODS)}
    periods = "float32" if rotary & {*made_up} else "file"
    provenance = Provenance(
        kind=naming.name,
        name=checkpoint.path.name,
        rope_periods=periods if rotary else None,
        adapter=checkpoint.adapter or None,
    )
    missing = tuple(name for name in made_up if name not in rotary)
    return Weights(LazyArrays(tensors), provenance, missing)


def check_masks(file: Mapping[str, LazyTensor]) -> None:
    """Refuse bias masks of NaN: the value before initialisation, not one from training."""
    keys = [key for key in file if key.endswith(".bias_mask") and file[key].dtype in FLOATS]
    if bad := [key for key in keys if np.isnan(file[key].read()).any()]:
        raise BadValues(
            f"{len(bad)} masks hold NaN ({', '.join(bad[:3])}…), so the file was saved before "
            "its model was initialised: give a checkpoint saved after training."
        )


def fits(naming: Naming, file: Mapping[str, LazyTensor], shapes: Mapping[str, Shape]) -> bool:
    """Whether a file has just what a model with these leaves needs, in these names."""
    covered = all(map(naming.names, shapes))
    return covered and not mismatches(naming, plan(naming.rules, shapes), file)


def nearest(namings: Iterable[Naming], checkpoint: Checkpoint) -> tuple[Naming, Checkpoint]:
    """Return the naming that knows most of what lies under a prefix, and that part of a checkpoint.

    Of equals it is the first without a custom head. **Raises** `NotACheckpoint` if none knows even
    half of one.
    """
    parts = views_of(checkpoint)
    candidates = [(naming, view) for naming in namings for view in parts(naming)]
    counts = [sum(naming.knows(key) for key in view.tensors) for naming, view in candidates]
    # A layer that a naming knows by its own name is no custom one.
    rank = [(n, not view.head_is_custom) for n, (_, view) in zip(counts, candidates, strict=True)]
    best = max(range(len(candidates)), key=lambda i: rank[i])
    if not counts[best] or 2 * counts[best] < len(candidates[best][1].tensors):
        keys = list(checkpoint.tensors)
        shown = ", ".join(ascii(key)[1:-1][:60] for key in keys[:5]) or "none at all"
        raise NotACheckpoint(
            f"the file's {len(keys)} tensors ({shown} …) are not those of a model in the zoo: "
            "give a checkpoint of one."
        )
    return candidates[best]
