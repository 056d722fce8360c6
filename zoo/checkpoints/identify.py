"""Identify the network of a checkpoint and describe the file (`zoo weights inspect`)."""

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import partial

from weights import Checkpoint
from weights.errors import MappingError
from weights.mapping import Convention, Naming, leaf_shape
from weights.parameters import parameter
from weights.views import choose_prefix
from zoo.architectures.config_settings import unstated_fields
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import (
    ARCHITECTURES,
    MODEL_TYPES,
    architecture_of,
    shapes_below,
    towers,
)
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import (
    Candidate,
    Rank,
    candidates,
    prefixes_of,
    without_needless_heads,
)
from zoo.checkpoints.custom import (
    described,
    is_published,
    published_names,
    unheard,
    with_own_facts,
)
from zoo.checkpoints.load import fitting_models, named, recognise
from zoo.checkpoints.mismatch import contradiction, settings_place, strange
from zoo.checkpoints.settings.class_names import read_class_names
from zoo.checkpoints.settings.known_settings import refuse_other_architectures, unusual_options
from zoo.checkpoints.settings.settings_files import CONFIG, SettingsBeside, read_settings
from zoo.checkpoints.source import GivenCheckpoint, open_given
from zoo.checkpoints.use import tell_guess, tell_settings, tell_use
from zoo.common.errors import BadRequest
from zoo.registry.lookup import MODELS


def recognised(choice: GivenCheckpoint | Checkpoint) -> tuple[ModelInfo, Checkpoint]:
    """The entry that describes a checkpoint, and the part of it that is its network. Sizes that are
    in no table make an entry that is called by its family. **Raises** a `WeightsError`, or
    `BadRequest` where only somebody who knows the checkpoint can tell."""
    asked = choice if isinstance(choice, GivenCheckpoint) else GivenCheckpoint(choice.path)
    checkpoint = named(open_given(asked) if isinstance(choice, GivenCheckpoint) else choice)
    beside = read_settings(checkpoint)
    settings = beside.settings
    if settings is not None and settings.model_type not in {"", *MODEL_TYPES}:
        raise MappingError(strange(checkpoint, settings))
    refuse_other_architectures(settings)
    ranked = likely(checkpoint, settings, asked)
    if not ranked:
        raise MappingError(strange(checkpoint, settings) + unusual_options(settings))
    best = ranked[0]
    if settings is not None and not asked.take:
        _check_kind(best, settings, asked)
    # Where only the licences differ, a guess would be a claim about the terms. What a library does
    # otherwise than the authors is no difference between networks that it has trained.
    alike = ranked if best.is_variant else []
    if len({(_described(each, beside).config, each.entry.licence.name) for each in alike}) > 1:
        fitting = " or ".join(dict.fromkeys(each.entry.name for each in ranked))
        raise BadRequest(
            f"{asked.path} may be of {fitting}, which its tensors do not tell: name the model."
        )
    is_part = best.view.other_tensors and not (asked.without_head or asked.take)
    if is_part and (reason := contradiction(checkpoint, settings, best.view)):
        raise MappingError(reason)
    if not best.is_variant:
        check_heads(best, settings)
    entry = _described(best, beside)
    tell_use(best, settings, asked)
    published = is_published(best.entry, checkpoint, None)
    classes = read_class_names(best.entry, best.config, settings, best.view)
    tell_settings(asked, (*unheard(beside, best.config), *classes.said))
    if classes.names is None and not is_published(best.entry, checkpoint, settings):
        tell_settings(asked, published_names(best.entry, best.config, are_used=False))
        entry = replace(entry, labels=())
    if beside.pictures is None and not published and best.config.pictures is not None:
        tell_guess(asked, entry.family)
    if not best.is_variant:
        entry = entry.unlisted
    elif not published:
        # In sizes of a published model, and perhaps somebody's own: nobody said its terms.
        entry = entry.under(entry.unlisted.licence)
    return with_own_facts(entry, asked), best.view


def _check_kind(best: Candidate, settings: Settings, asked: GivenCheckpoint) -> None:
    """**Raises** `MappingError` where the settings are of a network on a backbone, and the backbone
    alone is read."""
    kinds = [
        kind
        for kind in ARCHITECTURES
        if kind.is_on_backbone
        and any(made.model_type == settings.model_type for made in kind.classes)
    ]
    if kinds and architecture_of(best.config) not in kinds:
        raise MappingError(
            f"{asked.path} is a {settings.class_name} as {CONFIG} beside it says, and the zoo has "
            f"no network for it, only for the backbone ({best.called}), which can be named with "
            f"{parameter('take')}.{unusual_options(settings)}"
        )


def _described(candidate: Candidate, beside: SettingsBeside) -> ModelInfo:
    entry, config = candidate.entry, candidate.config
    names = read_class_names(entry, config, beside.settings, candidate.view).names
    return described(entry, candidate.published, config, beside, names)


def likely(
    checkpoint: Checkpoint, settings: Settings | None, asked: GivenCheckpoint | None = None
) -> list[Candidate]:
    """Networks of the registry, or else of its architectures; of several those that a file's own
    name tells, or what timm calls the network. **Raises** `MappingError` where a file holds several
    networks, and nothing tells which is meant.

    They are ranked by names and shapes. Networks are built from the likeliest on, until one fits.
    """
    asked = asked or GivenCheckpoint(checkpoint.path)
    names = {file.path.name for file in checkpoint.files}
    alike = without_needless_heads(candidates(checkpoint, settings, not asked.without_head))
    ranks = [(Rank.of(each, names, settings), each) for each in alike]
    ranks.sort(key=lambda pair: pair[0], reverse=True)
    best: dict[str, tuple[Rank, Candidate]] = {}
    for rank, each in ranks:
        if each.view.prefix not in best and each.fits:
            best[each.view.prefix] = rank, each
    prefixes = prefixes_of([each for _, each in best.values()], asked.take)
    if not prefixes:
        return []
    rank, first = best[choose_prefix(prefixes, asked.take, checkpoint.path)]
    if not first.is_variant:
        return [first]
    equal = [each for other, each in ranks if other == rank]
    return [each for each in equal if each.view.prefix == first.view.prefix and each.fits]


def check_heads(candidate: Candidate, settings: Settings | None) -> None:
    """**Raises** `BadRequest` where nothing tells how many heads a network in sizes of no table
    has, or where they cannot be as many."""
    shapes = partial(leaf_shape, candidate.naming, candidate.view.tensors)
    for path, tower in towers(candidate.config):
        for question in unstated_fields(tower, shapes_below(shapes, path), settings):
            raise BadRequest(
                f"{candidate.entry.family} of {tower.dim} channels: no tensor tells {question} "
                f"into {settings_place(candidate.view.path)}."
            )
        heads = getattr(tower, "heads", None)
        if type(heads) is int and not tower.is_sound:
            raise BadRequest(
                f"{heads} heads cannot share {tower.dim} channels: mend the "
                f"num_attention_heads of {CONFIG} beside the checkpoint."
            )


ROTARY = "local_pos_embed."  # in the paths of rotary periods


NOBODY = Convention("", "nobody's that the zoo knows")
"""Whose names those are that no naming knows."""


@dataclass(frozen=True)
class Inspection:
    """A checkpoint in a few words. `models` are those of the zoo that it fits; where there are
    none, `network` is what it is all the same, and `prefix` what comes before its tensors' names;
    of what the zoo has no network for, `strangeness` says what that is. `objects` are values that
    were walked past."""

    checkpoint: Checkpoint
    naming: Convention
    models: tuple[str, ...]
    network: str
    strangeness: str
    prefix: str
    objects: dict[str, str]
    parameters: int
    bytes: int
    dtypes: dict[str, int]
    periods: str


def inspect(asked: GivenCheckpoint) -> Inspection:
    """**Raises** a `WeightsError` if it is no checkpoint of a model in the zoo."""
    checkpoint = named(open_given(asked))
    models = tuple(fitting_models(checkpoint))
    beside = read_settings(checkpoint)
    settings = beside.settings
    own = next(iter(likely(checkpoint, settings, asked)), None) if not models else None
    config = own.config if own else MODELS[models[0]].config if models else None
    tell_settings(asked, unheard(beside, config) if config else beside.said)
    naming = own.naming if own else recognise(checkpoint, models)
    strangeness = "" if own or models else strange(checkpoint, settings)
    tensors = checkpoint.tensors.values()
    return Inspection(
        checkpoint=checkpoint,
        naming=naming.convention if naming else NOBODY,
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
