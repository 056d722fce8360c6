"""Which network a checkpoint is of, where nobody says: one of the registry, or one of its
architectures in other sizes."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from weights import Checkpoint
from weights.errors import MappingError
from weights.load import PERIODS, fits
from weights.mapping import Naming, leaf_shape, plan, source_shapes
from weights.parameters import parameter
from weights.views import Parts, choose_prefix, views_of
from zoo.architectures.config import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import (
    ARCHITECTURES,
    MODEL_TYPES,
    architecture_of,
    body,
    towers,
    unsized,
    with_one_head,
)
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.given_checkpoint import open_given
from zoo.checkpoints.load import model_shapes, named
from zoo.checkpoints.own import (
    described,
    is_published,
    published_names,
    readings,
    unheard,
)
from zoo.checkpoints.own_name import with_own_facts
from zoo.checkpoints.settings.beside import SettingsBeside, read_settings
from zoo.checkpoints.settings.class_names import read_class_names
from zoo.checkpoints.settings.file_names import CONFIG
from zoo.checkpoints.settings.known_settings import unusual_options
from zoo.checkpoints.strangeness import contradiction, settings_place, strange
from zoo.checkpoints.use import tell_guess, tell_settings, tell_use
from zoo.checkpoints.weights_argument import Given
from zoo.errors import BadRequest
from zoo.registry.lookup import MODELS


@dataclass(frozen=True)
class Candidate:
    """An entry whose architecture a part of a checkpoint has, in whose naming, in which sizes."""

    entry: ModelInfo
    naming: Naming
    config: Config
    view: Checkpoint

    @property
    def is_variant(self) -> bool:
        """Whether the sizes are the entry's too."""
        return body(self.config) == body(self.usual)

    @property
    def usual(self) -> Config:
        """The network of the entry."""
        return self.entry.config_for(self.naming.name)

    @cached_property
    def used(self) -> frozenset[int]:
        """The tensors that the network has a use for, by their identity."""
        config = self.config if self.config.is_sound else with_one_head(self.config)
        plans = plan(self.naming.rules, model_shapes(config))
        keys = source_shapes(plans).keys() & self.view.tensors.keys()
        return frozenset(id(self.view.tensors[key]) for key in keys)

    @property
    def called(self) -> str:
        """The model, or the family of a network in sizes of no table."""
        return self.entry.name if self.is_variant else self.entry.family


def recognised(choice: Given | Checkpoint) -> tuple[ModelInfo, Checkpoint]:
    """The entry that describes a checkpoint, and the part of it that is its network. Sizes that are
    in no table make an entry that is called by its family. **Raises** a `WeightsError`, or
    `BadRequest` where only somebody who knows the checkpoint can tell."""
    asked = choice if isinstance(choice, Given) else Given(choice.path)
    checkpoint = named(open_given(asked) if isinstance(choice, Given) else choice)
    beside = read_settings(checkpoint)
    settings = beside.settings
    if settings is not None and settings.model_type not in {"", *MODEL_TYPES}:
        raise MappingError(strange(checkpoint, settings))
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
    is_part = best.view.others and not (asked.without_head or asked.take)
    if is_part and (reason := contradiction(views_of(checkpoint), settings, best.view)):
        raise MappingError(reason)
    if not best.is_variant:
        check_heads(best, settings)
    entry = _described(best, beside)
    tell_use(best.view, best.naming, best.config, best.called, asked)
    published = is_published(best.entry, checkpoint, None)
    classes = read_class_names(best.entry, best.config, settings, best.view)
    tell_settings(asked, (*unheard(beside, best.config), *classes.said))
    if classes.names is None and not is_published(best.entry, checkpoint, settings):
        tell_settings(asked, published_names(best.entry, best.config, are_used=False))
        entry = replace(entry, labels=())
    if beside.pictures is None and not published and "pixel_values" in best.config.takes:
        tell_guess(asked, entry.family)
    if not best.is_variant:
        entry = entry.unlisted
    elif not published:
        # In sizes of a published model, and perhaps somebody's own: nobody said its terms.
        entry = replace(entry, licence=entry.unlisted.licence)
    return with_own_facts(entry, asked), best.view


def _check_kind(best: Candidate, settings: Settings, asked: Given) -> None:
    """**Raises** `MappingError` where the settings are of a network on a backbone, and the backbone
    alone is read."""
    kinds = [
        kind
        for kind in ARCHITECTURES
        if "backbone" in kind.parts
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
    return described(entry, candidate.naming, config, beside, names)


def likely(
    checkpoint: Checkpoint,
    settings: Settings | None,
    asked: Given | None = None,
    parts: Parts | None = None,
) -> list[Candidate]:
    """Networks of the registry, or else of its architectures; of several those that a file's own
    name tells, or what timm calls the network. **Raises** `MappingError` where a file holds several
    networks, and nothing tells which is meant."""
    asked = asked or Given(checkpoint.path)
    parts = parts or views_of(checkpoint, not asked.without_head)
    fitting = [*candidates(parts, settings)]
    used = {each.view.prefix: each.used for each in fitting}
    if asked.take:
        prefixes = [*used]
    else:
        # A tower beside another is a network too, of a size that may be known; both together leave
        # nothing out.
        whole = (p for p, own in used.items() if not any(own < other for other in used.values()))
        prefixes = [*whole]
    if not prefixes:
        return []
    prefix = choose_prefix(prefixes, asked.take, checkpoint.path)
    fitting = [each for each in fitting if each.view.prefix == prefix]
    most = max(len(each.used) for each in fitting)
    fitting = [each for each in fitting if len(each.used) == most]
    best = [each for each in fitting if each.is_variant] or fitting
    # What settings tell apart and tensors do not: OpenAI's CLIP has another GELU than LAION's.
    best = [each for each in best if each.config == each.usual] or best
    names = {file.path.name for file in checkpoint.files}
    best = [each for each in best if names & {*each.entry.files}] or best
    if settings is None or not settings.architecture:
        return best
    called = [each for each in best if settings.timm_name in each.entry.aliases]
    called = called or [each for each in best if settings.architecture == each.entry.name]
    # A classifier with weights that the registry does not have began as another classifier.
    trained = [each for each in best if each.config.classes and each.entry.config.classes]
    return called or trained or best


def candidates(parts: Parts, settings: Settings | None) -> Iterator[Candidate]:
    """All that parts of a checkpoint have just the tensors for."""
    for entry in MODELS.values():
        for naming, config, view in readings(entry, parts, settings):
            candidate = Candidate(entry, naming, config, view)
            alike = candidate.is_variant or unsized(config) == unsized(
                entry.config_for(naming.name)
            )
            if alike and _is_of(view, naming, config):
                yield candidate


def _is_of(checkpoint: Checkpoint, naming: Naming, config: Config) -> bool:
    """Whether a checkpoint has just the tensors of a network, however many heads that has."""
    if not config.is_sound:
        config = with_one_head(config)
    return config.is_sound and fits(naming, checkpoint.tensors, model_shapes(config))


def check_heads(candidate: Candidate, settings: Settings | None) -> None:
    """**Raises** `BadRequest` where nothing tells how many heads a network in sizes of no table
    has, or where they cannot be as many."""
    for path, tower in towers(candidate.config):
        kind = architecture_of(tower)
        if untold := kind.untold(tower, settings):
            raise BadRequest(
                f"{candidate.entry.family} of {tower.dim} channels: no tensor tells {untold} into "
                f"{settings_place(candidate.view.path)}."
            )
        if kind.heads is not None:
            stated = settings and kind.told(settings).heads
            periods = leaf_shape(candidate.naming, candidate.view.tensors, f"{path}{PERIODS}")
            is_known = bool(stated) or periods is not None
            _check_heads(tower, kind.heads(tower), candidate, is_known)


def _check_heads(tower: Config, heads: int, candidate: Candidate, is_told: bool) -> None:
    if not is_told:
        raise BadRequest(
            f"{candidate.entry.family} of {tower.dim} channels: no tensor tells how many heads "
            f'share them. Write {{"num_attention_heads": NUMBER}} into '
            f"{settings_place(candidate.view.path)}."
        )
    if not tower.is_sound:
        raise BadRequest(
            f"{heads} heads cannot share {tower.dim} channels: mend the "
            f"num_attention_heads of {CONFIG} beside the checkpoint."
        )
