"""Which network is asked for: one that is named, or whatever somebody's checkpoint is of."""

from weights import Checkpoint
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import Choice, Given
from zoo.common.errors import BadRequest
from zoo.registry.lookup import FAMILY_NAMES, info


def find_entry(name: str | None, choice: Choice) -> tuple[ModelInfo, Choice]:
    """The entry of a model by its name, with what somebody's checkpoint has otherwise, or without
    a name of whatever network that is of; and the weights. **Raises** a `ZooError` or a
    `WeightsError`."""
    own = isinstance(choice, Given) and name == choice.name
    entry = None if name is None or own or name in FAMILY_NAMES else info(name)
    # Settings are read with pydantic, and a network is known by what JAX would build.
    if entry is not None:
        from zoo.checkpoints.own import own_entry

        return own_entry(entry, choice)
    if isinstance(choice, Given | Checkpoint):
        from zoo.checkpoints.recognised import recognised

        return recognised(choice)
    if name is not None:
        return info(name), choice
    raise BadRequest("no model was named: name one; `zoo list` shows them.")
