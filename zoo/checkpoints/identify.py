"""Identify the network of a checkpoint (`zoo weights inspect`, and models without a name)."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from weights import Checkpoint
from weights.errors import MappingError
from weights.mapping import Convention, Naming, leaf_shape
from weights.parameters import parameter
from weights.views import choose_prefix
from zoo.architectures.config_settings import describe_missing_fields
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import (
    ARCHITECTURES,
    MODEL_TYPES,
    architecture_of,
    innermost_networks,
    shapes_below,
)
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import (
    Candidate,
    Rank,
    drop_redundant_heads,
    find_candidates,
    select_prefixes,
)
from zoo.checkpoints.custom import (
    adapt_entry,
    apply_user_name,
    is_published_checkpoint,
    settings_warnings,
    warn_about_class_names,
)
from zoo.checkpoints.load import find_naming, fitting_models, with_leaf_names
from zoo.checkpoints.mismatch import (
    describe_larger_network,
    describe_mismatch,
    describe_settings_path,
)
from zoo.checkpoints.settings.class_names import read_class_names
from zoo.checkpoints.settings.known_settings import (
    check_supported_architecture,
    describe_unusual_options,
)
from zoo.checkpoints.settings.settings_files import CONFIG, CheckpointSettings, read_settings
from zoo.checkpoints.source import GivenCheckpoint, open_given_checkpoint
from zoo.checkpoints.usage_report import (
    report_assumed_preprocessing,
    report_settings,
    report_used_tensors,
)
from zoo.common.errors import BadRequest
from zoo.registry.lookup import MODELS


def identify_checkpoint(choice: GivenCheckpoint | Checkpoint) -> tuple[ModelInfo, Checkpoint]:
    """Identify the network in a checkpoint. Return a registry entry that describes it, and the part
    of the checkpoint that is the network.

    A network whose sizes are not published gets an entry with the name of its family. The user's
    name and licence replace those of the entry. Tensors and settings that are not used are reported
    on the terminal.

    **Raises** a `WeightsError` if the checkpoint cannot be read, holds no network of the zoo, or
    holds several and the user selected none. Raises `BadRequest` if it fits models that differ in
    configuration or licence, if no file states a size or which vector a custom head takes, or if
    the user's name is not valid.
    """
    request = choice if isinstance(choice, GivenCheckpoint) else GivenCheckpoint(choice.path)
    checkpoint = with_leaf_names(
        open_given_checkpoint(request) if isinstance(choice, GivenCheckpoint) else choice
    )
    checkpoint_settings = read_settings(checkpoint)
    settings = checkpoint_settings.settings
    if settings is not None and settings.model_type not in {"", *MODEL_TYPES}:
        raise MappingError(describe_mismatch(checkpoint, settings))
    check_supported_architecture(settings)
    ranked = rank_networks(checkpoint, settings, request)
    if not ranked:
        raise MappingError(
            describe_mismatch(checkpoint, settings) + describe_unusual_options(settings)
        )
    best = ranked[0]
    if settings is not None and not request.take:
        _check_backbone_only(best, settings, request)
    # Models whose networks are equal and whose licences differ are ambiguous too: a guess would
    # be a claim about the terms. The entries are compared as this library computes them, so that
    # a difference between the library and the authors' code is no difference between models.
    matching = ranked if best.has_entry_sizes else []
    if (
        len(
            {
                (
                    _adapted_entry(candidate, checkpoint_settings).config,
                    candidate.entry.licence.name,
                )
                for candidate in matching
            }
        )
        > 1
    ):
        fitting = " or ".join(dict.fromkeys(candidate.entry.name for candidate in ranked))
        raise BadRequest(
            f"{request.path} may be of {fitting}, which its tensors do not tell: name the model."
        )
    is_part = best.view.other_tensors and not (request.without_head or request.take)
    if is_part and (reason := describe_larger_network(checkpoint, settings, best.view)):
        raise MappingError(reason)
    if not best.has_entry_sizes:
        check_unstated_sizes(best, settings)
    entry = _adapted_entry(best, checkpoint_settings)
    report_used_tensors(best, settings, request)
    is_published = is_published_checkpoint(best.entry, checkpoint, None)
    classes = read_class_names(best.entry, best.config, settings, best.view)
    report_settings(
        request, (*settings_warnings(checkpoint_settings, best.config), *classes.warnings)
    )
    if classes.names is None and not is_published_checkpoint(best.entry, checkpoint, settings):
        report_settings(request, warn_about_class_names(best.entry, best.config, are_used=False))
        entry = replace(entry, labels=())
    if (
        checkpoint_settings.pictures is None
        and not is_published
        and best.config.pictures is not None
    ):
        report_assumed_preprocessing(request, entry.family)
    if not best.has_entry_sizes:
        entry = entry.as_unpublished
    elif not is_published:
        # The sizes are published, but the weights may be anybody's: the licence is not known.
        entry = entry.with_licence(entry.as_unpublished.licence)
    return apply_user_name(entry, request), best.view


def _check_backbone_only(best: Candidate, settings: Settings, request: GivenCheckpoint) -> None:
    """Check that more than the backbone was found of the network that the settings describe.

    `best` is the network found. **Raises** `MappingError` if the settings name a class of
    transformers with a backbone, such as a detector, and only its backbone was found.
    """
    architectures = [
        architecture
        for architecture in ARCHITECTURES
        if architecture.has_backbone
        and any(
            transformers_class.model_type == settings.model_type
            for transformers_class in architecture.transformers_classes
        )
    ]
    if architectures and architecture_of(best.config) not in architectures:
        raise MappingError(
            f"{request.path} is a {settings.class_name} as {CONFIG} beside it says, and the zoo "
            f"has no network for it, only for the backbone ({best.display_name}), which can be "
            f"named with {parameter('take')}.{describe_unusual_options(settings)}"
        )


def _adapted_entry(candidate: Candidate, checkpoint_settings: CheckpointSettings) -> ModelInfo:
    """Return the entry of a candidate's model, changed to the sizes, classes and preprocessing of
    the checkpoint."""
    entry, config = candidate.entry, candidate.config
    names = read_class_names(entry, config, checkpoint_settings.settings, candidate.view).names
    return adapt_entry(entry, candidate.published, config, checkpoint_settings, names)


def rank_networks(
    checkpoint: Checkpoint, settings: Settings | None, request: GivenCheckpoint | None = None
) -> list[Candidate]:
    """Return the networks that a checkpoint may hold, all equally likely. The result is empty if it
    holds none.

    The networks are candidates for the same part of the checkpoint. They have exactly the tensors
    of that part, and the highest rank (`Rank`). A network whose sizes are not published is returned
    alone.

    `settings` are the contents of `config.json`, or None without one. `request` has the user's
    options about the checkpoint, or is None for the defaults.

    **Raises** `MappingError` if `take` selects none or several of the networks in the file, or if
    it is empty and none of several networks is the averaged copy of another.
    """
    request = request or GivenCheckpoint(checkpoint.path)
    names = {file.path.name for file in checkpoint.files}
    candidates = drop_redundant_heads(
        find_candidates(checkpoint, settings, not request.without_head)
    )
    ranks = [(Rank.of(candidate, names, settings), candidate) for candidate in candidates]
    ranks.sort(key=lambda pair: pair[0], reverse=True)
    best: dict[str, tuple[Rank, Candidate]] = {}
    for rank, candidate in ranks:
        if candidate.view.prefix not in best and candidate.has_exact_tensors:
            best[candidate.view.prefix] = rank, candidate
    prefixes = select_prefixes([candidate for _, candidate in best.values()], request.take)
    if not prefixes:
        return []
    rank, first = best[choose_prefix(prefixes, request.take, checkpoint.path)]
    if not first.has_entry_sizes:
        return [first]
    equal = [candidate for other_rank, candidate in ranks if other_rank == rank]
    return [
        candidate
        for candidate in equal
        if candidate.view.prefix == first.view.prefix and candidate.has_exact_tensors
    ]


def check_unstated_sizes(candidate: Candidate, settings: Settings | None) -> None:
    """Check the sizes that shapes of tensors do not determine, such as the number of attention
    heads.

    **Raises** `BadRequest` if the settings do not state such a size either, or if the number of
    heads does not divide the width.
    """
    shapes = partial(leaf_shape, candidate.naming, candidate.view.tensors)
    for path, tower in innermost_networks(candidate.config):
        for setting in describe_missing_fields(tower, shapes_below(shapes, path), settings):
            raise BadRequest(
                f"{candidate.entry.family} of {tower.dim} channels: no tensor tells {setting} "
                f"into {describe_settings_path(candidate.view.path)}."
            )
        heads = getattr(tower, "heads", None)
        if type(heads) is int and not tower.is_sound:
            raise BadRequest(
                f"{heads} heads cannot share {tower.dim} channels: correct the "
                f"num_attention_heads of {CONFIG} beside the checkpoint."
            )


ROTARY = "local_pos_embed."
"""Part of the paths of leaves that are rotary periods."""


UNKNOWN_CONVENTION = Convention("", "nobody's that the zoo knows")
"""Convention for tensor names that no naming of the zoo knows."""


@dataclass(frozen=True)
class Inspection:
    """Description of a checkpoint, for `zoo weights inspect`.

    Arguments:
        checkpoint: the open checkpoint.
        naming: the convention of its tensor names.
        models: names of the published models that it fits.
        network: the network that it holds, in words, if it fits no published model; otherwise
            empty.
        mismatch: why the zoo has no network for it, or empty if it has one.
        prefix: the prefix of the network's tensors, or empty if it fits a published model.
        objects: classes of the objects that were not read, by their position in the file.
        parameters: number of elements of all tensors.
        bytes: size of its files.
        dtypes: number of tensors by dtype.
        periods: where rotary periods come from, in words.
    """

    checkpoint: Checkpoint
    naming: Convention
    models: tuple[str, ...]
    network: str
    mismatch: str
    prefix: str
    objects: dict[str, str]
    parameters: int
    bytes: int
    dtypes: dict[str, int]
    periods: str


def summarize_checkpoint(request: GivenCheckpoint) -> Inspection:
    """Describe the checkpoint that a user names: its format, its names, and the network in it.

    Settings that have no effect are reported on the terminal. **Raises** a `WeightsError` if the
    file cannot be read as a checkpoint.
    """
    checkpoint = with_leaf_names(open_given_checkpoint(request))
    models = tuple(fitting_models(checkpoint))
    checkpoint_settings = read_settings(checkpoint)
    settings = checkpoint_settings.settings
    candidate = (
        next(iter(rank_networks(checkpoint, settings, request)), None) if not models else None
    )
    config = candidate.config if candidate else MODELS[models[0]].config if models else None
    report_settings(
        request,
        settings_warnings(checkpoint_settings, config) if config else checkpoint_settings.warnings,
    )
    naming = candidate.naming if candidate else find_naming(checkpoint, models)
    mismatch = "" if candidate or models else describe_mismatch(checkpoint, settings)
    tensors = checkpoint.tensors.values()
    return Inspection(
        checkpoint=checkpoint,
        naming=naming.convention if naming else UNKNOWN_CONVENTION,
        models=models,
        network=f"{candidate.display_name}: {candidate.config.description}" if candidate else "",
        mismatch=mismatch,
        prefix=candidate.view.prefix if candidate else "",
        objects=dict(checkpoint.objects),
        parameters=sum(math.prod(tensor.shape) for tensor in tensors),
        bytes=sum(file.state.size for file in checkpoint.files),
        dtypes=dict(Counter(tensor.dtype for tensor in tensors)),
        periods=_origin_of_periods(checkpoint, naming) if naming else "none",
    )


def _origin_of_periods(checkpoint: Checkpoint, naming: Naming) -> str:
    """Return in words where the rotary periods of a network come from.

    They are `the file's own`, `none, so computed in float32`, or `none` for a network without
    rotary positions.
    """
    rotary = [rule for rule in naming.rules if ROTARY in rule.target]
    if any(ROTARY in (naming.find_leaf(key) or "") for key in checkpoint.tensors):
        return "the file's own"
    return "none, so computed in float32" if any(not r.sources for r in rotary) else "none"
