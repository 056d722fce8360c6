"""Describe a user's checkpoint: a network of the zoo with other classes, sizes or licence."""

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
from zoo.architectures.config_settings import TransformersClass, settings_section
from zoo.architectures.entry import Licence, ModelInfo, PublishedNaming
from zoo.architectures.kinds import with_interpolation
from zoo.architectures.library_settings import Settings
from zoo.checkpoints.candidates import drop_redundant_heads, read_candidates, select_prefixes
from zoo.checkpoints.settings.class_names import read_class_names
from zoo.checkpoints.settings.known_settings import (
    check_supported_architecture,
    check_supported_network,
    find_unknown_settings,
)
from zoo.checkpoints.settings.library_configs import features_network, find_transformers_class
from zoo.checkpoints.settings.settings_files import (
    CONFIG,
    CheckpointSettings,
    add_temperature_tensor,
    describe_ignored_settings,
    read_settings,
)
from zoo.checkpoints.source import (
    GivenCheckpoint,
    SeededWeights,
    WeightsChoice,
    open_given_checkpoint,
)
from zoo.checkpoints.usage_report import report_settings, report_used_tensors
from zoo.common.errors import BadRequest
from zoo.common.fields import FOLDER_NAME
from zoo.images.preprocessing import Preprocessing
from zoo.registry.lookup import MODELS

GENERIC_FILE_NAMES = (
    "model",
    "pytorch_model",
    "weights",
    "checkpoint",
    "state_dict",
    "best",
    "last",
)
"""File names that say nothing about the network. A model is then called after the folder."""

LICENCE_TEXTS = {
    "apache-2.0": ("Apache License 2.0", "https://www.apache.org/licenses/LICENSE-2.0"),
    "cc-by-4.0": ("CC BY 4.0", "https://creativecommons.org/licenses/by/4.0/"),
    "cc-by-nc-4.0": ("CC BY-NC 4.0", "https://creativecommons.org/licenses/by-nc/4.0/"),
    "mit": ("MIT License", "https://opensource.org/license/mit"),
}
"""Name and page of each licence whose text is in `data/licences`, by its identifier on hubs."""


def apply_user_name(entry: ModelInfo, request: GivenCheckpoint) -> ModelInfo:
    """Return the entry with the name and the licence that the user gives in `request`.

    Without a user's name, an entry that has only the name of its family is called after the file or
    folder of the checkpoint. **Raises** `BadRequest` if the name is not valid or is the name of
    another published model.
    """
    if request.name:
        if not FOLDER_NAME.fullmatch(request.name):
            raise BadRequest(
                f"{parameter('name')} {request.name!r} cannot be the name of a folder everywhere: "
                "write letters, digits, `_`, `-` and `.`, 80 at most."
            )
        if request.name in MODELS and request.name != entry.name:
            raise BadRequest(
                f"{parameter('name')} {request.name} is the name of a published model: choose "
                "another."
            )
        entry = entry.with_name(request.name)
    elif entry.name == entry.family:
        entry = entry.with_name(_name_from_path(request.path))
    if request.licence:
        name, page = LICENCE_TEXTS.get(request.licence.casefold(), (request.licence, ""))
        text = f"{request.licence.casefold()}.txt" if page else ""
        entry = entry.with_licence(Licence(name, text, page, ""))
    return entry


def _name_from_path(path: Path) -> str:
    """Return a name for the model in a file or folder, made from the name of the file or, if that
    is generic (`model.safetensors`), of its folder.

    The name has small letters, digits and hyphens, at most 60, without a suffix. `own-` is put
    before the name of a published model. Return an empty string if both names are generic.
    """
    for name in (path.name if path.is_dir() else path.name.partition(".")[0], path.parent.name):
        short = re.sub(r"[^a-z0-9]+", "-", name.casefold()).strip("-")[:60]
        if short and short not in GENERIC_FILE_NAMES:
            return f"own-{short}" if short in MODELS else short
    return ""


FREE_SETTINGS = (
    *("image_size", "layerscale_value", "layer_scale_init_value"),
    *("mlp_ratio", "temperature_init_value", "projection_dim"),
    *("pad_token_id", "bos_token_id", "eos_token_id", "use_mask_token"),
)
"""Settings of transformers that may have any value: initial values of training, sizes and numbers
that are read from the tensors, and tokens that the tokenizer defines."""


def find_model_in_checkpoint(
    entry: ModelInfo, choice: WeightsChoice
) -> tuple[ModelInfo, WeightsChoice]:
    """Find the network of a model in the user's checkpoint. Return an entry that describes it, and
    the part of the checkpoint that is the network.

    The entry has the classes, the picture size and the preprocessing of the checkpoint, and the
    user's name and licence. Both arguments are returned unchanged for weights that are not a user's
    checkpoint, and for a view, whose entry was determined together with it. If no part of the
    checkpoint has the model's sizes, the open checkpoint is returned, and loading it fails later
    with an explanation. Tensors and settings that are not used are reported on the terminal.

    **Raises** a `WeightsError` if the checkpoint cannot be read, its settings describe another
    network, or it holds several networks and the user selected none. Raises `BadRequest` if it is
    not known which vector a custom head takes, or if the user's name is not valid.
    """
    if isinstance(choice, str | SeededWeights):
        return entry, choice
    if isinstance(choice, Checkpoint) and choice.naming is not None:
        return entry, choice
    request = choice if isinstance(choice, GivenCheckpoint) else GivenCheckpoint(choice.path)
    checkpoint = open_given_checkpoint(request) if isinstance(choice, GivenCheckpoint) else choice
    if checkpoint.container == npy.EQUINOX:
        # JAX is imported only where there is a model to build.
        from zoo.checkpoints.load import with_leaf_names

        checkpoint = with_leaf_names(checkpoint)
    checkpoint = add_temperature_tensor(checkpoint)
    checkpoint_settings = read_settings(checkpoint)
    settings = checkpoint_settings.settings
    check_supported_architecture(settings)
    candidates = read_candidates(entry, checkpoint, settings, not request.without_head)
    matching = [candidate for candidate in candidates if candidate.has_entry_sizes]
    if not matching:
        return apply_user_name(entry, request), checkpoint
    if len(matching) > 1:
        exact = drop_redundant_heads(
            candidate for candidate in matching if candidate.has_exact_tensors
        )
        matching = exact or matching
    prefix = choose_prefix(select_prefixes(matching, request.take), request.take, request.path)
    # A naming without a head also matches: it reads the features below the head.
    best = max(
        (candidate for candidate in matching if candidate.view.prefix == prefix),
        key=lambda candidate: sum(map(candidate.naming.has_key, candidate.view.tensors)),
    )
    classes = read_class_names(entry, best.config, settings, best.view)
    report_used_tensors(best, settings, request)
    report_settings(
        request, (*settings_warnings(checkpoint_settings, best.config), *classes.warnings)
    )
    if classes.names is None and not is_published_checkpoint(entry, checkpoint, settings):
        report_settings(request, warn_about_class_names(entry, best.config, are_used=True))
    entry = adapt_entry(entry, best.published, best.config, checkpoint_settings, classes.names)
    return apply_user_name(entry, request), best.view


def adapt_entry(
    entry: ModelInfo,
    published: PublishedNaming,
    config: Config,
    checkpoint_settings: CheckpointSettings,
    names: tuple[str, ...] | None,
) -> ModelInfo:
    """Return the registry entry for a checkpoint: the entry of the published model, changed to the
    checkpoint's configuration, class names and preprocessing.

    If nothing differs, `entry` itself is returned. A changed entry has no digest.

    **Arguments:**

    - `entry`: registry entry of the published model.
    - `published`: the naming that matches the checkpoint's tensors, and the configuration of the
      published network.
    - `config`: configuration of the network in the checkpoint.
    - `checkpoint_settings`: contents of the settings files of the checkpoint.
    - `names`: class names. None keeps those of `entry`; if their number is not that of the classes,
      `class_names` of the result gives "0", "1", ….

    **Raises** `MappingError` if the settings files describe another network.
    """
    settings, preprocessing = checkpoint_settings.settings, checkpoint_settings.pictures
    published_config, naming = published.config, published.naming
    has_published_names = names in (None, entry.class_names)
    if settings:
        check_supported_network(settings)
    if settings and naming.name == "huggingface":
        check_transformers_settings(config, settings)
    is_unchanged = has_published_names and config == published_config
    if not have_same_sizes(config, published_config) or (config.classes and not is_unchanged):
        config = _with_library_behaviour(published, config)
    preprocessing = preprocessing or _default_preprocessing(entry, published, config, settings)
    if config == published_config and has_published_names and preprocessing == entry.preprocessing:
        return entry
    # JAX is imported only where there is a model to build.
    from zoo.architectures.builder import abstract, count_parameters

    return replace(
        entry.with_config(config),
        preprocessing=preprocessing,
        parameters=count_parameters(abstract(config)),
        labels=entry.labels if names is None else names,
        digest="",
    )


def _default_preprocessing(
    entry: ModelInfo, published: PublishedNaming, config: Config, settings: Settings | None
) -> Preprocessing:
    """Return the preprocessing for a checkpoint without an image processor file.

    It is the entry's, at the size of the learned positions. Without learned positions the size is
    `image_size` in `config.json` of transformers, if the network can take that.
    """
    native, published_size = config.native_size, published.config.native_size
    if native is not None:
        return (
            entry.preprocessing
            if native == published_size
            else entry.preprocessing.with_size(native)
        )
    size = settings.picture_size if settings and published.naming.name == "huggingface" else None
    is_multiple = size is not None and not any(side % config.stride for side in size)
    if size is None or not (is_multiple or config.crops):
        return entry.preprocessing
    return entry.preprocessing.with_size(size)


def is_published_checkpoint(
    entry: ModelInfo, checkpoint: Checkpoint, settings: Settings | None
) -> bool:
    """Return whether a checkpoint claims to be a publisher's own, unchanged file of the model.

    It does if one of its names is that of the published file or repository, or if the settings name
    the model. It does not if an adapter was merged into it.
    """
    if checkpoint.container == MERGED:
        return False
    files = {checkpoint.path.name, *(file.path.name for file in checkpoint.files)}
    repositories = {name.rpartition("/")[2] for name in entry.names}
    setting_names = {settings.timm_name, settings.repository} if settings else set()
    return bool(files & {*entry.recognised_files, *repositories} or setting_names & {*entry.names})


def warn_about_class_names(entry: ModelInfo, config: Config, are_used: bool) -> Iterator[str]:
    """Yield a warning about the class names of a checkpoint that stores none.

    Yield nothing if the network has no classes, or if the published network has no named classes or
    another number of them. `are_used` is whether the classes get the published names. Otherwise
    they are called by their numbers.
    """
    if not entry.labels or not config.classes or config.classes != entry.config.classes:
        return
    names = f"as those of the published {entry.name}" if are_used else "by their numbers"
    yield (
        f"nothing in it or beside it says what its {config.classes} classes are called, so that "
        f"they are called {names}: write id2label into a {CONFIG} beside it if yours have others"
    )


def check_transformers_settings(config: Config, settings: Settings) -> None:
    """Check that transformers would compute this network with these settings.

    **Raises** `MappingError` for a setting that stands for another network, and `BadRequest` if
    transformers has no class for the network, with or without its head.
    """
    part, transformers_class = settings_section(config, settings), _transformers_class(config)
    stated_values = part.model_dump(mode="json", exclude_unset=True)
    _check_equal_settings(
        stated_values, transformers_class.settings(config), transformers_class.variable_settings
    )


def settings_warnings(checkpoint_settings: CheckpointSettings, config: Config) -> tuple[str, ...]:
    """Return warnings about the settings of a checkpoint that had no effect, because the zoo does
    not know or does not follow them.

    They are one warning about `config.json`, if it has such settings, and then the warnings in
    `checkpoint_settings`.
    """
    if checkpoint_settings.settings is None:
        return checkpoint_settings.warnings
    try:
        transformers_class = _transformers_class(config)
        known_settings = dict.fromkeys(
            transformers_class.unused_settings
        ) | transformers_class.settings(_transformers_part(config))
    except BadRequest:  # transformers has no class for this network
        known_settings = {}
    nested_names = (
        name for value in known_settings.values() if isinstance(value, Mapping) for name in value
    )
    unknown = find_unknown_settings(
        checkpoint_settings.settings, config, (*known_settings, *nested_names)
    )
    return (
        *([describe_ignored_settings(CONFIG, unknown)] if unknown else ()),
        *checkpoint_settings.warnings,
    )


def _transformers_class(config: Config) -> TransformersClass:
    """Return the class of transformers that computes a network, or the network without its head if
    the head is a custom one.

    **Raises** `BadRequest` if transformers has neither.
    """
    try:
        return find_transformers_class(config)
    except BadRequest:
        return find_transformers_class(features_network(config))


def _transformers_part(config: Config) -> Config:
    """Return the part of a network that its class of transformers computes: all of it, or the
    features below a custom head."""
    with suppress(BadRequest):
        find_transformers_class(config)
        return config
    return features_network(config)


def _check_equal_settings(
    settings: Mapping[str, Any], expected: Mapping[str, Any], free: tuple[str, ...]
) -> None:
    """Compare the settings of a checkpoint with those of the zoo's network. A missing setting
    counts as equal.

    Settings in `free` and in `FREE_SETTINGS` may have any value. **Raises** `MappingError` for
    another setting that differs from the expected value.
    """
    for name, expected_value in expected.items():
        value = settings.get(name, expected_value)
        if isinstance(expected_value, Mapping) and isinstance(value, Mapping):
            _check_equal_settings(value, expected_value, free)
        elif name not in (*FREE_SETTINGS, *free) and value != expected_value:
            raise MappingError(
                f"{CONFIG} beside the checkpoint says that {name} is {ascii(value)[:60]}, and the "
                f"zoo's network has {expected_value}: it has no network for this checkpoint."
            )


def _with_library_behaviour(published: PublishedNaming, config: Config) -> Config:
    """Return the configuration of the network that the library of the checkpoint computes.

    It differs from the authors' code in some networks: timm has another GELU, and transformers
    interpolates positions by its own rule.
    """
    if library := published.library_config:
        config = with_fields(config, activation=library.activation)
    if published.naming.name != "huggingface":
        return config
    return with_interpolation(config, _transformers_class(config).antialias)
