"""The weights that a request names, for the model that it names."""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial

from weights import (
    Checkpoint,
    Provenance,
    Weights,
    leaf_shapes,
    load_weights,
    random_weights,
)
from weights.containers import npy
from weights.errors import MappingError, NotACheckpoint
from weights.files import check_digest_in_name
from weights.initializers import Shape
from weights.load import find_nearest_naming, map_weights, matches_exactly
from weights.mapping import Naming, leaf_shape
from weights.progress import Progress
from weights.views import choose_prefix, views_of
from zoo.architectures.architecture import Config
from zoo.architectures.builder import abstract
from zoo.architectures.config_fields import with_values
from zoo.architectures.entry import ModelInfo, Published
from zoo.architectures.kinds import architecture_of, has_sizes, parts_of_network
from zoo.checkpoints.settings.settings_files import OF_LIBRARIES, with_temperature
from zoo.checkpoints.source import Choice, SeededWeights, Source, opened
from zoo.registry.lookup import MODELS

MOST_PERIODS = 256  # rotary periods and frequencies of a model, at most


@dataclass(frozen=True)
class LoadedWeights:
    """Weights, and the configuration of the model that they belong to."""

    config: Config
    weights: Weights


@cache
def model_shapes(config: Config) -> dict[str, Shape]:
    """Path (`blocks.0.attn.qkv.weight`) and shape of every array leaf of a model."""
    return leaf_shapes(abstract(config))


def open_weights(
    choice: Choice, entry: ModelInfo, listener: Progress, offline: bool = False
) -> LoadedWeights:
    """Weights for a model of the zoo, read lazily. **Raises** a `WeightsError` if there are none,
    or if they are of something else."""
    with opened(choice, entry, listener, offline) as source:
        return read_for_model(source, entry)


def read_for_model(source: Source | SeededWeights, entry: ModelInfo) -> LoadedWeights:
    """Weights for a model of the zoo, read lazily, and their digest. **Raises** a `WeightsError` if
    they are of something else."""
    begun = begin(source, entry)
    weights = replace(begun.weights, provenance=settle(begun, source, entry))
    return replace(begun, weights=weights)


def begin(source: Source | SeededWeights, entry: ModelInfo) -> LoadedWeights:
    """Begin what `read_for_model` does, without waiting for the digest: `settle` has to, before
    use. **Raises** a `WeightsError` if they are of something else."""
    if isinstance(source, SeededWeights):
        return LoadedWeights(entry.config, random_weights(model_shapes(entry.config), source.value))
    published, view = view_for(named(source.checkpoint), entry)
    config = published.config
    return _valued(config, map_weights(view, published.naming, model_shapes(config)))


def settle(begun: LoadedWeights, source: Source | SeededWeights, entry: ModelInfo) -> Provenance:
    """Where weights come from, all of it. **Raises** a `WeightsError` if their digest says that
    they are damaged or of something else."""
    provenance = begun.weights.provenance
    if isinstance(source, SeededWeights):
        return provenance
    checkpoint, file, digest = named(source.checkpoint), source.file, source.sha256()
    check_digest_in_name(checkpoint.path, digest)
    provenance = replace(provenance, sha256=digest)
    if file is None:
        is_named = OF_LIBRARIES.fullmatch(checkpoint.path.name) is None
        folder = None if is_named else checkpoint.path.absolute().parent.name or None
        fitting = also_fits(checkpoint, entry, digest)
        return replace(provenance, also_fits=fitting, folder=folder)
    return replace(
        provenance, repository=file.repository, revision=file.revision, publisher=file.owner
    )


def also_fits(checkpoint: Checkpoint, entry: ModelInfo, sha256: str) -> tuple[str, ...]:
    """The models under other terms that a checkpoint fits, where no digest tells which it is of.
    **Raises** `MappingError` if its digest is that of another model."""
    published = {
        name for name, each in MODELS.items() if each.digest and sha256.startswith(each.digest)
    }
    if published and entry.name not in published:
        raise MappingError(
            f"{checkpoint.path} is the published file of {' and '.join(published)}, not of "
            f"{entry.name}: export that model, or give the file {entry.file}."
        )
    others = (each for each in MODELS.values() if each.licence.name != entry.licence.name)
    fitting = (each.name for each in others if any(fitting_views(checkpoint, each.readable)))
    return () if published else tuple(fitting)


def named(checkpoint: Checkpoint) -> Checkpoint:
    """The numbers of Equinox's records become the paths of a model's leaves, and a number in the
    settings beside a checkpoint one of its tensors. A view is of a checkpoint that was named."""
    if checkpoint.naming is not None:
        return checkpoint
    if checkpoint.container != npy.EQUINOX:
        return with_temperature(checkpoint)
    tensors = list(checkpoint.tensors.values())
    shapes = [tensor.shape for tensor in tensors]
    count = sum(map(math.prod, shapes))
    for entry in MODELS.values():
        for config, parameters in _as_recorded(entry, shapes):
            # Rotary periods are leaves and no parameters; building a model is not cheap.
            if 0 <= count - parameters <= MOST_PERIODS:
                leaves = model_shapes(config)
                if list(leaves.values()) == shapes:
                    return replace(checkpoint, tensors=dict(zip(leaves, tensors, strict=True)))
    return checkpoint


def published_namings() -> list[Naming]:
    """All names of tensors that publishers give, in files and in memory."""
    readable = (each for entry in MODELS.values() for each in entry.readable[:-1])
    return [*dict.fromkeys(each.naming for each in readable)]


def _as_recorded(entry: ModelInfo, records: list[Shape]) -> Iterator[tuple[Config, int]]:
    """The networks that records may be of, and their parameters: an entry's, and that with the
    classifier that the last two records may be."""
    config, parameters = entry.config, entry.parameters
    yield config, parameters
    head = architecture_of(config).head
    if head is None:
        return
    if len(records) > 1 and len(records[-2]) == 2 and records[-2][:1] == records[-1]:
        body = parameters - config.classes * (config.dim + 1)
        yield head.with_classes(config, records[-2]), body + math.prod(records[-2]) + records[-1][0]


def load_checkpoint(checkpoint: Checkpoint, entry: ModelInfo) -> LoadedWeights:
    """Weights from an open checkpoint. **Raises** a `WeightsError` if it is of something else."""
    published, view = view_for(checkpoint, entry)
    config = published.config
    return _valued(config, load_weights(view, published.naming, model_shapes(config)))


def _valued(config: Config, weights: Weights) -> LoadedWeights:
    return LoadedWeights(with_values(config, weights.arrays), weights)


def view_for(checkpoint: Checkpoint, entry: ModelInfo) -> tuple[Published, Checkpoint]:
    """Part of a checkpoint that is a model, and in whose names; where none fits, the nearest.
    **Raises** `MappingError` that names the model it belongs to, if that is another one."""
    own = [each for each in entry.readable if each.naming == checkpoint.naming]
    if fitting := list(fitting_views(checkpoint, own or entry.readable)):
        prefixes = dict.fromkeys(view.prefix for _, view in fitting)
        prefix = choose_prefix([*prefixes], "", checkpoint.path)
        return next(each for each in fitting if each[1].prefix == prefix)
    if belongs := fitting_models(checkpoint):
        both = len(parts_of_network(entry.config)) > 1
        advice = "put the other tower's beside it" if both else f"give the file {entry.file}"
        raise MappingError(
            f"{checkpoint.path} is of another variant: it looks like {' or '.join(belongs)}, not "
            f"like {entry.name}. Export that model, or {advice}."
        )
    complete = naming_all_leaves(entry.readable[:-1])
    naming, view = find_nearest_naming([each.naming for each in complete], checkpoint)
    published = next(each for each in complete if each.naming == naming)
    leaves = model_shapes(published.config)
    others = {path: shape for path, shape in leaves.items() if not path.startswith("head.")}
    if entry.config.classes and matches_exactly(naming, view.tensors, others):
        raise MappingError(
            f"{checkpoint.path} has no classifier and {entry.name} is one, of "
            f"{entry.config.classes} classes: give a file that was fine-tuned for that."
        )
    return published, view


def naming_all_leaves(readable: Iterable[Published]) -> list[Published]:
    """The namings that have a place for every leaf of their network: DeiT's under one classifier
    has none for a second."""
    return [each for each in readable if all(map(each.naming.has_leaf, model_shapes(each.config)))]


def fitting_views(
    checkpoint: Checkpoint, readable: Iterable[Published]
) -> Iterator[tuple[Published, Checkpoint]]:
    """The parts of a checkpoint that have just what a model needs, and in whose names."""
    for each in readable:
        for view in views_of(checkpoint)(each.naming):
            shapes = partial(leaf_shape, each.naming, view.tensors)
            if has_sizes(each.config, shapes) and matches_exactly(
                each.naming, view.tensors, model_shapes(each.config)
            ):
                yield each, view


def fitting_models(checkpoint: Checkpoint) -> list[str]:
    """The models of the zoo that a checkpoint fits, by its keys and shapes."""
    return [name for name, each in MODELS.items() if any(fitting_views(checkpoint, each.readable))]


def recognise(checkpoint: Checkpoint, models: Sequence[str]) -> Naming | None:
    """Naming that a checkpoint uses, which fits these models; None where they are nobody's."""
    if models:
        return next(fitting_views(checkpoint, MODELS[models[0]].readable))[0].naming
    # Paths of leaves may be any names.
    with suppress(NotACheckpoint):
        return find_nearest_naming(published_namings(), checkpoint)[0]
    return None
