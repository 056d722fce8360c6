"""The weights that a request names, for the model that it names."""

from collections.abc import Mapping
from pathlib import Path

from weights import Checkpoint, Weights, load_weights, locate, open_checkpoint, random_weights
from weights.errors import MappingError
from weights.hub import Listener
from weights.locate import Found, Published
from weights.namings import Architecture, architecture, recognise
from zoo.entry import ModelInfo, ViTConfig
from zoo.registry import MODELS
from zoo.request import Choice, Seed


def load(
    choice: Choice,
    entry: ModelInfo,
    shapes: Mapping[str, tuple[int, ...]],
    listener: Listener,
    offline: bool = False,
) -> Weights:
    """Weights for a model whose leaves have these paths and shapes, read lazily.

    **Raises** a `WeightsError` if there are none, or if they are of something else.
    """
    if isinstance(choice, Seed):
        return random_weights(shapes, choice.value)
    found = Found(choice, "") if isinstance(choice, Path) else find(entry, listener, offline)
    checkpoint = open_checkpoint(found.path)
    check_variant(checkpoint, entry)
    return load_weights(checkpoint, shapes, found.sha256)


def find(entry: ModelInfo, listener: Listener, offline: bool = False) -> Found:
    """The checkpoint in one of the usual places, or from the hub."""
    return locate(published(entry), listener, offline)


def published(entry: ModelInfo) -> Published:
    """Names and places of a model's weights."""
    return Published(
        checkpoint=entry.checkpoint,
        digest=entry.digest,
        archive=entry.archive,
        repository=entry.repository,
        hub=entry.hub,
        licence_page=entry.licence.page,
        download_page=entry.licence.download,
    )


def check_variant(checkpoint: Checkpoint, entry: ModelInfo) -> None:
    """Name the model that a checkpoint belongs to, if that is another one of the zoo."""
    others = variants(checkpoint)
    if others and entry.name not in others:
        raise MappingError(
            f"{checkpoint.path} is of another variant: it looks like {' or '.join(others)}, not "
            f"like {entry.name}. Export that model, or give the file {entry.checkpoint}."
        )


def variants(checkpoint: Checkpoint) -> list[str]:
    """The models of the zoo that a checkpoint fits, by its keys and shapes."""
    found = architecture(recognise(checkpoint.tensors), checkpoint.tensors)
    if found is None:
        return []
    return [name for name, model in MODELS.items() if found.fits(wanted(model.config))]


def wanted(config: ViTConfig) -> Architecture:
    """What the checkpoint of a model looks like."""
    return Architecture(
        dim=config.dim,
        depth=config.depth,
        hidden=config.hidden,
        ffn=config.ffn,
        qkv_bias=config.qkv_bias,
        untied_norms=config.untied_norms,
    )
