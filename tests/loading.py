"""Load the weights of a checkpoint for a model that need not be in the zoo."""

from weights import Weights, load_weights, open_checkpoint
from weights.load import find_nearest_naming
from weights.mapping import Naming
from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families import dinov3_family


def load(path, shapes, namings=dinov3_family.DINOV3_NAMINGS) -> Weights:
    """Return the weights at `path`, read with the naming that is nearest to the checkpoint."""
    checkpoint = open_checkpoint(path)
    naming, view = find_nearest_naming(namings, checkpoint)
    return load_weights(view, naming, shapes)


def network_in(entry: ModelInfo, name: str) -> Config:
    """Return the network of a publisher's files, or the model's own network if the model has no
    naming of this publisher."""
    names = {naming.name for naming in entry.namings}
    return entry.config_for(name) if name in names else entry.config


def naming_of(entry: ModelInfo, name: str) -> Naming:
    """Return a publisher's naming of a model's tensors."""
    return next(naming for naming in entry.namings if naming.name == name)
