"""The networks whose files a folder has: one, or both towers and what they are together."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from weights import LazyArrays, Weights
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of, parts_of_network
from zoo.checkpoints.load import Loaded
from zoo.export.assemble.plan import TOWER_FILES, VARIANTS
from zoo.export.request import FileSpec


@dataclass(frozen=True)
class Part:
    """A network, its weights, and the variants that are of it."""

    entry: ModelInfo
    loaded: Loaded
    files: dict[str, FileSpec]


def parts_of(entry: ModelInfo, loaded: Loaded) -> Iterator[Part]:
    """The towers, if there are any, and then the whole."""
    parts = parts_of_network(loaded.config)
    for tower, field in architecture_of(loaded.config).towers.items():
        files = {name: spec for name, spec in TOWER_FILES.items() if name.startswith(tower)}
        part = Loaded(parts[field], inner(loaded.weights, f"{field}."))
        yield Part(replace(entry, config=parts[field]), part, files)
    yield Part(entry, loaded, VARIANTS)


def inner(weights: Weights, path: str) -> Weights:
    """The weights of a part of a network, which lies under `path`."""
    tensors = weights.arrays.tensors.items()
    inside = {name.removeprefix(path): each for name, each in tensors if name.startswith(path)}
    return replace(weights, arrays=LazyArrays(inside))
