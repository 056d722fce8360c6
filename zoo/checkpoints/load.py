"""Load the weights that a request names, for the model that it names."""

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
from weights.load import find_nearest_naming, map_weights, matches_model
from weights.mapping import Naming, leaf_shape
from weights.progress import Progress
from weights.views import choose_prefix, views_of
from zoo.architectures.architecture import Config
from zoo.architectures.builder import abstract
from zoo.architectures.config_fields import with_values
from zoo.architectures.entry import ModelInfo, PublishedNaming
from zoo.architectures.kinds import architecture_of, has_sizes
from zoo.checkpoints.settings.settings_files import LIBRARY_FILE_NAME, add_temperature_tensor
from zoo.checkpoints.source import OpenWeights, SeededWeights, WeightsChoice, open_weight_source
from zoo.registry.lookup import MODELS

MAX_PERIODS = 256
"""Largest number of rotary periods and frequencies of a model."""


@dataclass(frozen=True)
class LoadedWeights:
    """Weights, and the configuration of the network that they belong to."""

    config: Config
    weights: Weights


@cache
def model_shapes(config: Config) -> dict[str, Shape]:
    """Return the shape of every array of the network with this configuration, by the path of the
    leaf, such as `blocks.0.attn.qkv.weight`."""
    return leaf_shapes(abstract(config))


def open_weights(
    choice: WeightsChoice, entry: ModelInfo, listener: Progress, offline: bool = False
) -> LoadedWeights:
    """Find and open the weights of a model. Their tensors are read when they are used.

    **Arguments:**

    - `choice`: the requested weights.
    - `entry`: registry entry of the model.
    - `listener`: reports progress.
    - `offline`: whether nothing is downloaded.

    **Raises** a `WeightsError` if no weights are found, or if they belong to another network.
    """
    with open_weight_source(choice, entry, listener, offline) as source:
        return read_for_model(source, entry)


def read_for_model(source: OpenWeights | SeededWeights, entry: ModelInfo) -> LoadedWeights:
    """Return the weights of an open source for a model, with their provenance. Tensors are read
    when they are used.

    This waits for the digest of the file. **Raises** a `WeightsError` if the weights belong to
    another network or the file is damaged.
    """
    loaded = load_without_digest(source, entry)
    weights = replace(loaded.weights, provenance=complete_provenance(loaded, source, entry))
    return replace(loaded, weights=weights)


def load_without_digest(source: OpenWeights | SeededWeights, entry: ModelInfo) -> LoadedWeights:
    """Return the weights of an open source for a model, without waiting for the digest of the file.

    Call `complete_provenance` before the weights are used, because the digest can show that the
    file is damaged. **Raises** a `WeightsError` if they belong to another network.
    """
    if isinstance(source, SeededWeights):
        return LoadedWeights(entry.config, random_weights(model_shapes(entry.config), source.seed))
    published, view = select_view(with_leaf_names(source.checkpoint), entry)
    config = published.config
    return _with_tensor_values(config, map_weights(view, published.naming, model_shapes(config)))


def complete_provenance(
    loaded: LoadedWeights, source: OpenWeights | SeededWeights, entry: ModelInfo
) -> Provenance:
    """Wait for the digest of the file that `loaded` was read from, and return the provenance of the
    weights with it.

    Random weights have no file, so that their provenance is returned as it is. **Raises** a
    `WeightsError` if the digest shows that the file is damaged or is the published file of another
    model.
    """
    provenance = loaded.weights.provenance
    if isinstance(source, SeededWeights):
        return provenance
    checkpoint, file, digest = with_leaf_names(source.checkpoint), source.file, source.sha256()
    check_digest_in_name(checkpoint.path, digest)
    provenance = replace(provenance, sha256=digest)
    if file is None:
        is_named = LIBRARY_FILE_NAME.fullmatch(checkpoint.path.name) is None
        folder = None if is_named else checkpoint.path.absolute().parent.name or None
        other_models = find_models_with_other_licences(checkpoint, entry, digest)
        return replace(provenance, also_fits=other_models, folder=folder)
    return replace(
        provenance, repository=file.repository, revision=file.revision, publisher=file.owner
    )


def find_models_with_other_licences(
    checkpoint: Checkpoint, entry: ModelInfo, sha256: str
) -> tuple[str, ...]:
    """Return the names of other models that a checkpoint also fits, and that have another licence
    than `entry`.

    The result is empty if the digest of the checkpoint is that of a published file, which decides
    the question. **Raises** `MappingError` if it is that of another model's published file.
    """
    published = {
        name for name, model in MODELS.items() if model.digest and sha256.startswith(model.digest)
    }
    if published and entry.name not in published:
        raise MappingError(
            f"{checkpoint.path} is the published file of {' and '.join(published)}, not of "
            f"{entry.name}: export that model, or give the file {entry.weights_name}."
        )
    models = (model for model in MODELS.values() if model.licence.name != entry.licence.name)
    names = (
        model.name for model in models if any(fitting_views(checkpoint, model.readable_namings))
    )
    return () if published else tuple(names)


def with_leaf_names(checkpoint: Checkpoint) -> Checkpoint:
    """Return a checkpoint with names in place of the numbers of an Equinox file's tensors.

    The names are the paths of the leaves of the first published model whose leaves have these
    shapes in this order. If there is none, the checkpoint is returned unchanged. For other files
    the result is that of `add_temperature_tensor`. A view, which has a naming already, is returned
    unchanged.
    """
    if checkpoint.naming is not None:
        return checkpoint
    if checkpoint.container != npy.EQUINOX:
        return add_temperature_tensor(checkpoint)
    tensors = list(checkpoint.tensors.values())
    shapes = [tensor.shape for tensor in tensors]
    count = sum(map(math.prod, shapes))
    for entry in MODELS.values():
        for config, parameters in _possible_configs(entry, shapes):
            # The count is compared first because building a model takes time. Rotary periods are
            # leaves but are not counted as parameters.
            if 0 <= count - parameters <= MAX_PERIODS:
                leaves = model_shapes(config)
                if list(leaves.values()) == shapes:
                    return replace(checkpoint, tensors=dict(zip(leaves, tensors, strict=True)))
    return checkpoint


def known_namings() -> list[Naming]:
    """Return the namings of all publishers, for files and for networks in memory, without
    duplicates.

    The paths of the zoo's own leaves are not among them.
    """
    readable = (published for entry in MODELS.values() for published in entry.readable_namings[:-1])
    return [*dict.fromkeys(published.naming for published in readable)]


def _possible_configs(entry: ModelInfo, shapes: list[Shape]) -> Iterator[tuple[Config, int]]:
    """Yield the configurations that the arrays of an Equinox file may belong to, each with its
    number of parameters.

    The first is the entry's. If the last two arrays have the shapes of a linear layer, the second
    is the entry's with that layer as its classifier. `shapes` are those of all arrays in the file,
    in order.
    """
    config, parameters = entry.config, entry.parameters
    yield config, parameters
    head = architecture_of(config).head
    if head is None:
        return
    if len(shapes) > 1 and len(shapes[-2]) == 2 and shapes[-2][:1] == shapes[-1]:
        without_head = parameters - config.classes * (config.dim + 1)
        yield (
            head.with_classes(config, shapes[-2]),
            without_head + math.prod(shapes[-2]) + shapes[-1][0],
        )


def load_checkpoint(checkpoint: Checkpoint, entry: ModelInfo) -> LoadedWeights:
    """Return the weights of an open checkpoint for a model.

    **Raises** a `WeightsError` if they belong to another network.
    """
    published, view = select_view(checkpoint, entry)
    config = published.config
    return _with_tensor_values(config, load_weights(view, published.naming, model_shapes(config)))


def _with_tensor_values(config: Config, weights: Weights) -> LoadedWeights:
    """Return weights with their configuration. Settings that are stored as tensors are read into
    it."""
    return LoadedWeights(with_values(config, weights.arrays), weights)


def select_view(checkpoint: Checkpoint, entry: ModelInfo) -> tuple[PublishedNaming, Checkpoint]:
    """Return the part of a checkpoint that is the model's network, and the naming in which its
    names were read.

    If no part fits exactly, return the nearest of the model's namings and the part that was read in
    it. The caller reports how its tensors differ.

    **Raises** `MappingError` if the checkpoint fits another model, lacks the classifier of this
    one, or holds several networks of which none is the averaged copy.
    """
    same_naming = [
        published for published in entry.readable_namings if published.naming == checkpoint.naming
    ]
    if fitting := list(fitting_views(checkpoint, same_naming or entry.readable_namings)):
        prefixes = dict.fromkeys(view.prefix for _, view in fitting)
        prefix = choose_prefix([*prefixes], "", checkpoint.path)
        return next(match for match in fitting if match[1].prefix == prefix)
    if other_models := fitting_models(checkpoint):
        advice = (
            "put the other tower's beside it"
            if entry.config.towers
            else f"give the file {entry.weights_name}"
        )
        raise MappingError(
            f"{checkpoint.path} is of another variant: it looks like {' or '.join(other_models)}, "
            f"not like {entry.name}. Export that model, or {advice}."
        )
    complete = naming_all_leaves(entry.readable_namings[:-1])
    naming, view = find_nearest_naming([published.naming for published in complete], checkpoint)
    published = next(published for published in complete if published.naming == naming)
    leaves = model_shapes(published.config)
    feature_leaves = {path: shape for path, shape in leaves.items() if not path.startswith("head.")}
    if entry.config.classes and matches_model(naming, view.tensors, feature_leaves):
        raise MappingError(
            f"{checkpoint.path} has no classifier and {entry.name} is one, of "
            f"{entry.config.classes} classes: give a file that was fine-tuned for that."
        )
    return published, view


def naming_all_leaves(readable: Iterable[PublishedNaming]) -> list[PublishedNaming]:
    """Return the readable namings that have a tensor for every leaf of their network.

    The naming of a DeiT with one classifier, for example, has no tensor for a second one.
    """
    return [
        published
        for published in readable
        if all(map(published.naming.has_leaf, model_shapes(published.config)))
    ]


def fitting_views(
    checkpoint: Checkpoint, readable: Iterable[PublishedNaming]
) -> Iterator[tuple[PublishedNaming, Checkpoint]]:
    """Yield the parts of a checkpoint that have exactly the tensors of a network, each with the
    naming in which it was read.

    `readable` are the namings to try, with their networks.
    """
    for published in readable:
        for view in views_of(checkpoint)(published.naming):
            shapes = partial(leaf_shape, published.naming, view.tensors)
            if has_sizes(published.config, shapes) and matches_model(
                published.naming, view.tensors, model_shapes(published.config)
            ):
                yield published, view


def fitting_models(checkpoint: Checkpoint) -> list[str]:
    """Return the names of the published models that have exactly the tensor names and shapes of a
    checkpoint."""
    return [
        name
        for name, model in MODELS.items()
        if any(fitting_views(checkpoint, model.readable_namings))
    ]


def find_naming(checkpoint: Checkpoint, models: Sequence[str]) -> Naming | None:
    """Return the naming that the tensor names of a checkpoint follow, or None if no naming knows
    them.

    `models` are the names of the published models that the checkpoint fits. The naming is that of
    the first one, or the nearest naming if the list is empty.
    """
    if models:
        return next(fitting_views(checkpoint, MODELS[models[0]].readable_namings))[0].naming
    # A checkpoint with the leaf paths of an unknown model has names of no publisher.
    with suppress(NotACheckpoint):
        return find_nearest_naming(known_namings(), checkpoint)[0]
    return None
