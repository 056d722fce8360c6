"""Settings files of other libraries, which are read into the fields of configurations and written
from them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from weights.errors import MappingError
from zoo.architectures.config_fields import (
    Configuration,
    FieldFacts,
    Key,
    NetworkConfig,
    Shapes,
    declared_fields,
    nested_configs,
    with_fields,
    with_parts,
)

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings

C = TypeVar("C", bound=Configuration)
N = TypeVar("N", bound=NetworkConfig)

TRANSFORMERS, TIMM, EQUIMO = "hf", "timm", "equimo"
"""Names of libraries, as the arguments of `size`, `setting` and `detail` that give a field's name
in that library."""

Template = tuple[str | Mapping[str, object] | Callable[[Any], Mapping[str, object]], ...]
"""Settings in the order of a file: the names of fields; dictionaries from names to constants, or to
functions of the configuration; and functions that return several settings."""


def settings_section(config: NetworkConfig, settings: Settings) -> Settings:
    """Return the section of a settings file that describes a network of this kind, such as
    `vision_config`.

    The names of sections are `config.settings_sections`. If the file has none of them, return the
    full settings.
    """
    sections = (settings.get(name) for name in config.settings_sections)
    return next((section for section in sections if isinstance(section, type(settings))), settings)


def with_settings(config: N, settings: Settings | None) -> N:
    """Return the configuration with the fields that a settings file states.

    Only fields with `FieldFacts.is_in_settings` are read, from the section that describes the
    network. A field that the section does not state gets the library's default, or else keeps its
    value. Nested networks are not changed. The configuration is returned unchanged if `settings` is
    None, or if the full file lacks the setting that every file of such a network has
    (`config.required_setting`).

    **Raises** `MappingError` for a value that the field cannot have.
    """
    if settings is None:
        return config
    if config.required_setting and settings.get(config.required_setting) is None:
        return config
    return _read_fields(config, settings_section(config, settings))


def _read_fields(config: C, settings: Settings) -> C:
    """Return the configuration with the fields that the settings state. Nested configurations of
    parts are read from the same settings; nested networks are not changed."""
    config = with_parts(config, lambda part: _read_fields(part, settings))
    values: dict[str, object] = {}
    for field in declared_fields(config):
        if field.facts is not None and field.facts.is_in_settings:
            values[field.name] = read_field(field.facts, field.value, settings)
    return with_fields(config, **values)


def read_field(facts: FieldFacts, default: Any, settings: Settings) -> Any:
    """Return the value of a field that a settings file states, under its name in transformers or
    else in timm.

    If the file does not state it, or states a value that does not determine the field, return the
    first `Key.library_default` that is not None, or else `default`.

    **Raises** `MappingError` for a value that the field cannot have.
    """
    for library, key in facts.keys.items():
        setting = _find_setting(library, key, settings)
        if (
            setting is not None
            and (value := _convert_setting(facts, default, key, setting)) is not None
        ):
            return value
    library_defaults = (
        key.library_default for key in facts.keys.values() if key.library_default is not None
    )
    return next(library_defaults, default)


def _find_setting(library: str, key: Key, settings: Settings) -> object:
    """Return the value of a key in a settings file, where `library` says whose key it is. timm's
    keys are looked up in `model_args`.

    Return None if the file does not state it, if the key is only written, or if the key is
    Equimo's, whose settings are never read.
    """
    if library == EQUIMO or not key.is_read:
        return None
    return settings.get(key.name) if library == TRANSFORMERS else settings.model_args.get(key.name)


def _convert_setting(facts: FieldFacts, default: Any, key: Key, setting: Any) -> Any:
    """Return a setting of the file as the value of a field; None if it does not determine the
    field.

    Without `key.read`, the setting must have the type of `default`.

    **Raises** `MappingError` for a value that the field cannot have.
    """
    try:
        value = key.read(setting) if key.read is not None else _as_type_of(default, setting)
        if facts.is_within(value):
            return value
    except (TypeError, ValueError):
        pass
    raise MappingError(
        f"config.json beside the checkpoint has a value of {key.name} that is not valid: give the "
        "settings that were saved with the checkpoint."
    )


def _as_type_of(default: Any, setting: Any) -> Any:
    """Return the setting if it has the type of `default`.

    A list of integers becomes a tuple if the default is a tuple. If the default is a float, an
    integer is returned as it is. **Raises** `TypeError` for any other type.
    """
    if isinstance(default, tuple) and isinstance(setting, list | tuple):
        return tuple(_as_type_of(0, entry) for entry in setting)
    if type(setting) is type(default) or (isinstance(default, float) and type(setting) is int):
        return setting
    raise TypeError


def describe_missing_fields(
    config: NetworkConfig, shapes: Shapes, settings: Settings | None
) -> Iterator[str]:
    """Yield descriptions, for a message, of fields that neither tensors nor settings determine.

    Only fields that are declared with `describe_missing` are looked at, and not those of nested
    configurations. A field is left out if the network's section of the settings states it, or if
    the configuration's value may be used for it.

    **Arguments:**

    - `shapes`: the shapes of the checkpoint's leaves.
    - `settings`: the settings beside the checkpoint; None if there are none.
    """
    section = settings_section(config, settings) if settings is not None else None
    for field in declared_fields(config):
        if field.facts is None or field.facts.describe_missing is None:
            continue
        keys = field.facts.keys.items()
        if section is not None and any(
            _find_setting(library, key, section) for library, key in keys
        ):
            continue
        if description := field.facts.describe_missing(config, shapes, settings):
            yield description


def write_settings(
    config: Configuration, template: Template, library: str = TRANSFORMERS
) -> dict[str, Any]:
    """Return the settings of a network in the format of a library, by name, in the order of
    `template`.

    **Arguments:**

    - `template`: the names of settings that fields have; dictionaries from other names to constants
      or to functions of the configuration; and functions of the configuration that return several
      settings. Fields that it does not name are left out. Of a name with dots, the result has the
      last part.
    - `library`: whose names the fields have: `TRANSFORMERS`, `TIMM` or `EQUIMO`.

    **Raises** `KeyError` if no field has a name in `template`.
    """
    values = values_to_write(config, library)
    settings: dict[str, Any] = {}
    for part in template:
        if isinstance(part, str):
            settings[part.rpartition(".")[2]] = values[part]
        elif isinstance(part, Mapping):
            settings |= {
                key: value(config) if callable(value) else value for key, value in part.items()
            }
        else:
            settings |= part(config)
    return settings


def values_to_write(config: Configuration, library: str) -> dict[str, Any]:
    """Return the values of a configuration's fields as a library's settings file has them, by the
    full names of their keys, such as `vision_config.hidden_size`.

    Fields of nested parts are included, those of nested networks are not. Fields that the library
    does not have are left out. Tuples become lists.
    """
    values: dict[str, Any] = {}
    for part in nested_configs(config):
        values |= values_to_write(part.value, library)
    for field in declared_fields(config):
        if field.facts is not None and (key := field.facts.keys.get(library)) is not None:
            value = key.write(field.value) if key.write is not None else field.value
            values[key.name] = list(value) if isinstance(value, tuple) else value
    return values


def names_in_settings(config: Configuration, library: str = TRANSFORMERS) -> Iterator[str]:
    """Yield the names of a configuration's fields in a library's settings file, without the names
    of sections (`hidden_size` for `vision_config.hidden_size`). Fields of nested parts and networks
    are included, also those that are only written."""
    for field in declared_fields(config):
        if isinstance(field.value, Configuration):
            yield from names_in_settings(field.value, library)
        elif field.facts is not None and (key := field.facts.keys.get(library)) is not None:
            yield key.name.rpartition(".")[2]


@dataclass(frozen=True)
class TransformersClass:
    """A model class of transformers, with the settings that it needs for a network.

    **Arguments:**

    - `name`: the name of the class.
    - `model_type`: the model type of its configuration class.
    - `template`: the settings of a network, in the order of its `config.json`.
    - `antialias`: whether the class interpolates learned positions with antialiasing.
    - `interpolates_on_request`: whether it interpolates positions only with
      `interpolate_pos_encoding=True`.
    - `section`: the section of `config.json` that has the settings; empty if they are at the top
      level.
    - `auto_class`: the class that loads it by its settings.
    - `output_names`: the outputs of the class; empty if it returns features.
    - `adds_pooler`: whether the class has a pooler layer that the network does not have.
    - `has_key_bias_setting`: whether a setting says that the projection to keys has a bias.
    - `square_only`: whether the class takes square pictures only.
    - `variable_settings`: settings that may have several values for the same network.
    - `unused_settings`: settings that do not change the result.
    """

    name: str
    model_type: str
    template: Template
    antialias: bool = False
    interpolates_on_request: bool = False
    section: str = ""
    auto_class: str = "AutoModel"
    output_names: tuple[str, ...] = ()
    adds_pooler: bool = False
    has_key_bias_setting: bool = False
    square_only: bool = False
    variable_settings: tuple[str, ...] = ()
    unused_settings: tuple[str, ...] = ()

    def settings(self, config: Configuration) -> dict[str, Any]:
        """Return the settings by which this class builds the network of a configuration, in the
        order of `config.json`."""
        return write_settings(config, self.template)
