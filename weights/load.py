"""Load the weights of a model from a checkpoint, and find out which naming a checkpoint uses."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np

from weights.errors import BadValues, NotACheckpoint
from weights.files import Checkpoint, check_digest_in_name
from weights.initializers import Shape
from weights.inverse import find_missing_leaves
from weights.mapping import Naming, describe_misfits, map_tensors, plan_leaves
from weights.tensors import FLOATS, LazyArrays, LazyTensor, Provenance, Weights
from weights.views import narrow_to_model, views_of

PERIODS = "local_pos_embed.periods"


def load_weights(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Weights:
    """Return the weights for a model from a checkpoint.

    The file is hashed, and the values of bias masks and of tensors that the model does not use are
    checked. The weights themselves are read when they are used.

    **Arguments:**

    - `checkpoint`: the checkpoint, or a view of it. If it contains several networks,
      `weights.views.narrow_to_model` selects one.
    - `naming`: the naming of its tensors, which must have a rule for every leaf of the model.
    - `shapes`: the shape of each leaf of the model by path.

    **Raises** `WrongDigest` if the name of the file contains another digest, `MappingError` if the
    file does not match the model or several networks in it match, and `BadValues` if a mask
    contains NaN, or if a tensor that the model does not use has other values than the naming says.
    """
    digest = checkpoint.sha256()
    check_digest_in_name(checkpoint.path, digest)
    weights = map_weights(checkpoint, naming, shapes)
    return replace(weights, provenance=replace(weights.provenance, sha256=digest))


def map_weights(checkpoint: Checkpoint, naming: Naming, shapes: Mapping[str, Shape]) -> Weights:
    """Return the weights as `load_weights` does, but without computing the digest of the file.
    `provenance.sha256` is None. The caller has to check the digest before it uses the weights."""
    tensors_in_file = narrow_to_model(checkpoint, naming, shapes).tensors
    plans = plan_leaves(naming.rules, shapes)
    tensors = map_tensors(naming, plans, tensors_in_file)
    check_masks(tensors_in_file)
    missing_leaves = find_missing_leaves(plans, tensors_in_file)
    rotary = {path for path in shapes if path.endswith(PERIODS)}
    periods = "float32" if rotary & {*missing_leaves} else "file"
    provenance = Provenance(
        kind=naming.name,
        name=checkpoint.path.name,
        rope_periods=periods if rotary else None,
        adapter=checkpoint.adapter or None,
    )
    filled_leaves = tuple(name for name in missing_leaves if name not in rotary)
    return Weights(LazyArrays(tensors), provenance, filled_leaves)


def check_masks(file: Mapping[str, LazyTensor]) -> None:
    """Raise `BadValues` if a tensor whose name ends in `.bias_mask` contains NaN, which is its
    value before the model is initialized. `file` has the tensors by key."""
    keys = [key for key in file if key.endswith(".bias_mask") and file[key].dtype in FLOATS]
    if nan_masks := [key for key in keys if np.isnan(file[key].read()).any()]:
        raise BadValues(
            f"{len(nan_masks)} masks hold NaN ({', '.join(nan_masks[:3])}…), so the file was saved "
            "before its model was initialised: give a checkpoint saved after training."
        )


def matches_model(
    naming: Naming, file: Mapping[str, LazyTensor], shapes: Mapping[str, Shape]
) -> bool:
    """Return True if a file in this naming matches a model.

    A file matches if the naming has a rule for every leaf of the model and `mapping.find_misfits`
    finds nothing: no required tensor is missing, and no tensor inside the network is unexpected or
    has a wrong shape or dtype. Optional tensors may be missing. No values are read.

    **Arguments:**

    - `file`: the tensors of the file by key.
    - `shapes`: the shape of each leaf of the model by path.
    """
    has_all_leaves = all(map(naming.has_leaf, shapes))
    return has_all_leaves and not describe_misfits(naming, plan_leaves(naming.rules, shapes), file)


def find_nearest_naming(
    namings: Iterable[Naming], checkpoint: Checkpoint
) -> tuple[Naming, Checkpoint]:
    """Return the naming that knows the most tensor names of a checkpoint, and its view of the
    checkpoint.

    A view is a checkpoint with the tensors of one network. The names are those of one view of a
    naming. Among equal numbers, a view without a custom head is preferred, then the order of
    `namings`.

    **Raises** `NotACheckpoint` if that naming knows none of the view's names, or less than half of
    them.
    """
    find_views = views_of(checkpoint)
    candidates = [(naming, view) for naming in namings for view in find_views(naming)]
    counts = [sum(naming.has_key(key) for key in view.tensors) for naming, view in candidates]
    # Prefer a naming in which the linear layer has the publisher's name.
    ranks = [
        (count, not view.head_is_custom)
        for count, (_, view) in zip(counts, candidates, strict=True)
    ]
    best = max(range(len(candidates)), key=lambda i: ranks[i])
    if not counts[best] or 2 * counts[best] < len(candidates[best][1].tensors):
        keys = list(checkpoint.tensors)
        first_keys = ", ".join(ascii(key)[1:-1][:60] for key in keys[:5]) or "none at all"
        raise NotACheckpoint(
            f"the file's {len(keys)} tensors ({first_keys} …) are not those of a model in the zoo: "
            "give a checkpoint of a model in the zoo."
        )
    return candidates[best]
