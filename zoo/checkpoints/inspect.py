"""`zoo weights inspect`: what a checkpoint is, told without reading its tensors."""

import math
from collections import Counter
from dataclasses import dataclass

from weights import Checkpoint
from weights.mapping import Naming
from weights.views import views_of
from zoo.checkpoints.custom import unheard
from zoo.checkpoints.load import fitting_models, named, recognise
from zoo.checkpoints.mismatch import strange
from zoo.checkpoints.recognised import likely
from zoo.checkpoints.settings.beside import read_settings
from zoo.checkpoints.source import Given, open_given
from zoo.checkpoints.use import tell_settings
from zoo.registry.lookup import MODELS

ROTARY = "local_pos_embed."  # in the paths of rotary periods


@dataclass(frozen=True)
class Inspection:
    """A checkpoint in a few words. `models` are those of the zoo that it fits; where there are
    none, `network` is what it is all the same, and `prefix` what comes before its tensors' names;
    of what the zoo has no network for, `strangeness` says what that is. `objects` are values that
    were walked past."""

    checkpoint: Checkpoint
    naming: str
    models: tuple[str, ...]
    network: str
    strangeness: str
    prefix: str
    objects: dict[str, str]
    parameters: int
    bytes: int
    dtypes: dict[str, int]
    periods: str


def inspect(asked: Given) -> Inspection:
    """**Raises** a `WeightsError` if it is no checkpoint of a model in the zoo."""
    checkpoint = named(open_given(asked))
    parts = views_of(checkpoint)
    models = tuple(fitting_models(parts))
    beside = read_settings(checkpoint)
    settings = beside.settings
    own = next(iter(likely(checkpoint, settings, asked, parts)), None) if not models else None
    config = own.config if own else MODELS[models[0]].config if models else None
    tell_settings(asked, unheard(beside, config) if config else beside.said)
    naming = own.naming if own else recognise(checkpoint, models, parts)
    strangeness = "" if own or models else strange(checkpoint, settings, parts)
    tensors = checkpoint.tensors.values()
    return Inspection(
        checkpoint=checkpoint,
        naming=naming.name if naming else "",
        models=models,
        network=f"{own.called}: {own.config.text}" if own else "",
        strangeness=strangeness,
        prefix=own.view.prefix if own else "",
        objects=dict(checkpoint.objects),
        parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        bytes=sum(file.state.size for file in checkpoint.files),
        dtypes=dict(Counter(tensor.dtype for tensor in tensors)),
        periods=_origin_of_periods(checkpoint, naming) if naming else "none",
    )


def _origin_of_periods(checkpoint: Checkpoint, naming: Naming) -> str:
    """Where rotary periods would come from, in words."""
    rotary = [rule for rule in naming.rules if ROTARY in rule.target]
    if any(ROTARY in (naming.leaf(key) or "") for key in checkpoint.tensors):
        return "the file's own"
    return "none, so computed in float32" if any(not r.sources for r in rotary) else "none"
