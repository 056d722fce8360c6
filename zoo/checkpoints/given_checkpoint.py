"""The checkpoint that somebody names, with an adapter merged into it where that is named too."""

from weights import Checkpoint, open_checkpoint
from zoo.checkpoints.weights_argument import Given
from zoo.registry.lookup import MODELS


def open_given(given: Given) -> Checkpoint:
    """What lies at a path; an adapter's, on its base. **Raises** a `WeightsError`."""
    if given.base is None:
        return open_checkpoint(given.path)
    # Only who has an adapter needs what merges one.
    from weights.adapters import with_adapter

    namings = (naming for entry in MODELS.values() for naming in entry.namings)
    renamed = dict.fromkeys(naming for naming in namings if naming.in_memory is not None)
    return with_adapter(given.path, open_checkpoint(given.base), renamed)
