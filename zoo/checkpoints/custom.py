"""Describe a checkpoint of a user: a network of the zoo with other classes, sizes or terms."""

import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from weights import Checkpoint
from weights.adapters import MERGED
from weights.containers import npy
from weights.errors import MappingError
from weights.parameters import parameter
from weights.views import choose_prefix
from zoo.architectures.architecture import Config
from zoo.architectures.config_fields import have_same_sizes, with_fields
from zoo.architectures.config_settings import TransformersClass, part_of
from zoo.architectures.entry import Licence, ModelInfo, Published
from zoo.architectures.kinds import interpolated
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import prefixes_of, readings, without_needless_heads
from zoo.checkpoints.settings.class_names import read_class_names
from zoo.checkpoints.settings.known_settings import (
    refuse_other_architectures,
    refuse_other_networks,
    strange_settings,
)
from zoo.checkpoints.settings.library_configs import below, transformers_kind
from zoo.checkpoints.settings.settings_files import (
    CONFIG,
    SettingsBeside,
    read_settings,
    with_temperature,
    without_effect,
)
from zoo.checkpoints.source import Choice, GivenCheckpoint, SeededWeights, open_given
from zoo.checkpoints.use import tell_settings, tell_use
from zoo.common.errors import BadRequest
from zoo.common.fields import OWN_NAME
from zoo.images.preprocessing import Preprocessing
from zoo.registry.lookup import MODELS

SAYING_NOTHING = ("model", "pytorch_model", "weights", "checkpoint", "state_dict", "best", "last")
"""Names of files that are everybody's: their folder has a name."""

OWN_LICENCES = {
    "apache-2.0": ("Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
    "cc-by-4.0": ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/"),
    "cc-by-nc-4.0": ("CC BY-NC 4.0", "https://creativecommons.org/licenses/by-nc/4.0/"),
    "mit": ("MIT License", "https://opensource.org/license/mit"),
}
"""Licences whose words are in `data/licences`, by what hubs call them."""


def with_own_facts(entry: ModelInfo, asked: GivenCheckpoint) -> ModelInfo:
    """An entry with the name and the licence that somebody gives a checkpoint. **Raises**
    `BadRequest` for a name that is none, or that of a published model."""
    if asked.name:
        if not OWN_NAME.fullmatch(asked.name):
            raise BadRequest(
                f"{parameter('name')} {asked.name!r} cannot be the name of a folder everywhere: "
                "write letters, digits, `_`, `-` and `.`, 80 at most."
            )
        if asked.name in MODELS and asked.name != entry.name:
            raise BadRequest(
                f"{parameter('name')} {asked.name} is the name of a published model: choose "
                "another."
            )
        entry = entry.called(asked.name)
    elif entry.name == entry.family:
        entry = entry.called(_name_of(asked.path))
    if asked.licence:
        name, page = OWN_LICENCES.get(asked.licence.casefold(), (asked.licence, ""))
        text = f"{asked.licence.casefold()}.txt" if page else ""
        entry = entry.under(Licence(name, text, page, ""))
    return entry


def _name_of(path: Path) -> str:
    """A name from that of a file or folder; empty where that says nothing."""
    for name in (path.name if path.is_dir() else path.name.partition(".")[0], path.parent.name):
        short = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:60]
        if short and short not in SAYING_NOTHING:
            return f"own-{short}" if short in MODELS else short
    return ""


FREE_SETTINGS = (
    *("image_size", "layerscale_value", "layer_scale_init_value"),
    *("mlp_ratio", "temperature_init_value", "projection_dim"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "use_mask_token"),
)
"""Settings that change nothing: what training began with, sizes and numbers that are read
otherwise, and words that the tokenizer knows."""


def own_entry(entry: ModelInfo, choice: Choice) -> tuple[ModelInfo, Choice]:
    """An entry with the classes, the pictures' size and the preprocessing of somebody's checkpoint,
    and that opened; as they are where there is no more to read: the entry of a view was found with
    it. **Raises** a `WeightsError`."""
    if isinstance(choice, str | SeededWeights):
        return entry, choice
    if isinstance(choice, Checkpoint) and choice.naming is not None:
        return entry, choice
    asked = choice if isinstance(choice, GivenCheckpoint) else GivenCheckpoint(choice.path)
    checkpoint = open_given(asked) if isinstance(choice, GivenCheckpoint) else choice
    if checkpoint.container == npy.EQUINOX:
        # JAX is imported only where there is a model to build.
        from zoo.checkpoints.load import named

        checkpoint = named(checkpoint)
    checkpoint = with_temperature(checkpoint)
    beside = read_settings(checkpoint)
    settings = beside.settings
    refuse_other_architectures(settings)
    readable = readings(entry, checkpoint, settings, not asked.without_head)
    alike = [each for each in readable if each.is_variant]
    if not alike:
        return with_own_facts(entry, asked), checkpoint
    if len(alike) > 1:
        fitting = without_needless_heads(each for each in alike if each.fits)
        alike = fitting or alike
    prefix = choose_prefix(prefixes_of(alike, asked.take), asked.take, asked.path)
    # A naming that has no place for a head finds the features below.
    best = max(
        (each for each in alike if each.view.prefix == prefix),
        key=lambda each: sum(map(each.naming.has_key, each.view.tensors)),
    )
    classes = read_class_names(entry, best.config, settings, best.view)
    tell_use(best, settings, asked)
    tell_settings(asked, (*unheard(beside, best.config), *classes.said))
    if classes.names is None and not is_published(entry, checkpoint, settings):
        tell_settings(asked, published_names(entry, best.config, are_used=True))
    entry = described(entry, best.published, best.config, beside, classes.names)
    return with_own_facts(entry, asked), best.view


def described(
    entry: ModelInfo,
    published: Published,
    config: Config,
    beside: SettingsBeside,
    names: tuple[str, ...] | None,
) -> ModelInfo:
    """Return an entry for a network of its architecture in other sizes, or with other classes;
    `names` are those of its classes, by default the entry's. **Raises** `MappingError` where the
    settings beside the tensors are about another network."""
    settings, how = beside.settings, beside.pictures
    usual, naming = published.config, published.naming
    like_usual = names in (None, entry.class_names)
    if settings:
        refuse_other_networks(settings)
    if settings and naming.name == "huggingface":
        check_settings(config, settings)
    is_usual = like_usual and config == usual
    if not have_same_sizes(config, usual) or (config.classes and not is_usual):
        config = _as_trained(published, config)
    how = how or _pictures(entry, published, config, settings)
    if config == usual and like_usual and how == entry.preprocessing:
        return entry
    # JAX is imported only where there is a model to build.
    from zoo.architectures.builder import abstract, count_parameters

    return replace(
        entry.of_network(config),
        preprocessing=how,
        parameters=count_parameters(abstract(config)),
        labels=entry.labels if names is None else names,
        digest="",
    )


def _pictures(
    entry: ModelInfo, published: Published, config: Config, settings: Settings | None
) -> Preprocessing:
    """Return the preprocessing of pictures where nothing beside the tensors states it: the entry's,
    at the size of the learned positions, or else at `image_size` of transformers' `config.json`."""
    native, usual = config.native, published.config.native
    if native is not None:
        return entry.preprocessing if native == usual else entry.preprocessing.at(native)
    size = settings.picture_size if settings and published.naming.name == "huggingface" else None
    is_whole = size is not None and not any(side % config.stride for side in size)
    if size is None or not (is_whole or config.crops):
        return entry.preprocessing
    return entry.preprocessing.at(size)


def is_published(entry: ModelInfo, checkpoint: Checkpoint, settings: Settings | None) -> bool:
    """Return whether the name of a checkpoint, or the settings beside it, say that it is what
    somebody published, as it was."""
    if checkpoint.container == MERGED:
        return False
    files = {checkpoint.path.name, *(file.path.name for file in checkpoint.files)}
    repositories = {name.rpartition("/")[2] for name in entry.names}
    stated = {settings.timm_name, settings.repository} if settings else set()
    return bool(files & {*entry.files, *repositories} or stated & {*entry.names})


def published_names(entry: ModelInfo, config: Config, are_used: bool) -> Iterator[str]:
    """A sentence about classes of which nothing says what they are called, where a published
    network has as many that have names."""
    if not entry.labels or not config.classes or config.classes != entry.config.classes:
        return
    names = f"as those of the published {entry.name}" if are_used else "by their numbers"
    yield (
        f"nothing in it or beside it says what its {config.classes} classes are called, so that "
        f"they are called {names}: write id2label into a {CONFIG} beside it if yours have others"
    )


def check_settings(config: Config, settings: Settings) -> None:
    """**Raises** `MappingError` where transformers would compute another network."""
    said, made = part_of(config, settings), _class(config)
    known = said.model_dump(mode="json", exclude_unset=True)
    _check_alike(known, made.settings(config), made.free)


def unheard(beside: SettingsBeside, config: Config) -> tuple[str, ...]:
    """Sentences about the settings beside a checkpoint that the zoo does not know or follow."""
    if beside.settings is None:
        return beside.said
    try:
        made = _class(config)
        others = dict.fromkeys(made.idle) | made.settings(_computed(config))
    except BadRequest:  # of a network that transformers has not
        others = {}
    inner = (name for value in others.values() if isinstance(value, Mapping) for name in value)
    strange = strange_settings(beside.settings, config, (*others, *inner))
    return (*([without_effect(CONFIG, strange)] if strange else ()), *beside.said)


def _class(config: Config) -> TransformersClass:
    """The class of transformers that a network was trained in, which may have a head of somebody's
    own on it."""
    try:
        return transformers_kind(config)
    except BadRequest:
        return transformers_kind(below(config))


def _computed(config: Config) -> Config:
    """Return the part of a network that its class of transformers computes."""
    with suppress(BadRequest):
        transformers_kind(config)
        return config
    return below(config)


def _check_alike(
    said: Mapping[str, Any], expected: Mapping[str, Any], free: tuple[str, ...]
) -> None:
    for name, ours in expected.items():
        theirs = said.get(name, ours)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            _check_alike(theirs, ours, free)
        elif name not in (*FREE_SETTINGS, *free) and theirs != ours:
            raise MappingError(
                f"{CONFIG} beside the checkpoint says that {name} is {ascii(theirs)[:60]}, and the "
                f"zoo's network has {ours}: it has no network for this checkpoint."
            )


def _as_trained(published: Published, config: Config) -> Config:
    """With what the library in which somebody trained a network does otherwise than the authors:
    timm has another GELU in some networks, transformers interpolates positions by its own rule."""
    if library := published.library:
        config = with_fields(config, activation=library.activation)
    if published.naming.name != "huggingface":
        return config
    return interpolated(config, _class(config).antialias)
