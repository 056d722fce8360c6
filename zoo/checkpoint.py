"""The weights that a request names, for the model that it names."""

from collections.abc import Mapping
from pathlib import Path

from weights import LazyTensor, Weights, locate, meta_weights, random_weights, read_pth
from weights.errors import MappingError
from weights.meta import Architecture, architecture
from zoo.entry import ModelInfo, ViTConfig
from zoo.registry import MODELS
from zoo.request import Choice, Seed


def load(choice: Choice, entry: ModelInfo, shapes: Mapping[str, tuple[int, ...]]) -> Weights:
    """Weights for a model whose leaves have these paths and shapes, read lazily.

    **Raises** a `WeightsError` if there are none, or if they are of something else.
    """
    if isinstance(choice, Seed):
        return random_weights(shapes, choice.value)
    path = find(entry) if choice == "auto" else Path(choice)
    file = read_pth(path)
    check_variant(path, file, entry)
    return meta_weights(path, file, shapes)


def find(entry: ModelInfo) -> Path:
    """The checkpoint in one of the usual places."""
    return locate(entry.checkpoint, entry.licence.page, entry.licence.download)


def check_variant(path: Path, file: Mapping[str, LazyTensor], entry: ModelInfo) -> None:
    """Name the model that a checkpoint belongs to, if that is another one of the zoo."""
    found = architecture(file)
    if found is None or found == wanted(entry.config):
        return
    others = [name for name, model in MODELS.items() if wanted(model.config) == found]
    if others:
        raise MappingError(
            f"{path} is of another variant: it looks like {' or '.join(others)}, not like "
            f"{entry.name}. Export that model, or give the file {entry.checkpoint}."
        )


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
