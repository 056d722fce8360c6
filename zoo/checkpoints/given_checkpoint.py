"""The checkpoint that somebody names, with an adapter merged into it where that is named too."""

from weights import Checkpoint, open_checkpoint
from zoo.checkpoints.weights_argument import Given
from zoo.registry.lookup import MODELS


def open_given(asked: Given) -> Checkpoint:
    """Checkpoint at a path; an adapter's, on its base. **Raises** a `WeightsError`."""
    if asked.base is None:
        return open_checkpoint(asked.path)
    # Only who has an adapter needs what merges one.
    from weights.adapters import with_adapter

    namings = (naming for entry in MODELS.values() for naming in entry.namings)
    renamed = dict.fromkeys(naming for naming in namings if naming.in_memory is not None)
    return with_adapter(asked.path, open_checkpoint(asked.base), renamed)
