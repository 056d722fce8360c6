"""Settings files of other libraries: read into, and written from, the fields of configurations."""

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
    own_parts,
    with_fields,
    with_parts,
)

if TYPE_CHECKING:
    from zoo.architectures.library_settings import Settings

C = TypeVar("C", bound=Configuration)
N = TypeVar("N", bound=NetworkConfig)

TRANSFORMERS, TIMM, EQUIMO = "hf", "timm", "equimo"
"""Libraries, by the arguments of `size`, `setting` and `detail` that name a field for them."""

Template = tuple[str | Mapping[str, object] | Callable[[Any], Mapping[str, object]], ...]
"""Settings in the order of a file: names of fields, constants (or functions of the configuration)
by their names, and functions that return several."""


def part_of(config: NetworkConfig, settings: Settings) -> Settings:
    """Return the part of a settings file that is about a network of this kind."""
    parts = (settings.stated(name) for name in config.settings_in)
    return next((part for part in parts if isinstance(part, type(settings))), settings)


def with_settings(config: N, settings: Settings | None) -> N:
    """Return the configuration with the fields that a settings file states.

    Fields that no file states are those that the library has then, or else stay as they are.

    **Raises** `MappingError` for a value that such a field cannot have.
    """
    if settings is None:
        return config
    if config.settings_need and settings.stated(config.settings_need) is None:
        return config
    return _read(config, part_of(config, settings))


def _read(config: C, settings: Settings) -> C:
    config = with_parts(config, lambda part: _read(part, settings))
    found: dict[str, object] = {}
    for each in declared_fields(config):
        if each.facts is not None and each.facts.is_in_settings:
            found[each.name] = stated_value(each.facts, each.value, settings)
    return with_fields(config, **found)


def stated_value(facts: FieldFacts, usual: Any, settings: Settings) -> Any:
    """Return the value of a field that settings state, or else what it is without."""
    for library, key in facts.keys.items():
        stated = _stated(library, key, settings)
        if stated is not None and (value := _checked(facts, usual, key, stated)) is not None:
            return value
    absent = (key.absent for key in facts.keys.values() if key.absent is not None)
    return next(absent, usual)


def _stated(library: str, key: Key, settings: Settings) -> object:
    if library == EQUIMO or not key.is_read:
        return None
    return (
        settings.stated(key.name) if library == TRANSFORMERS else settings.model_args.get(key.name)
    )


def _checked(facts: FieldFacts, usual: Any, key: Key, stated: Any) -> Any:
    """Return a value of the kind that the field has. **Raises** `MappingError` for another one."""
    try:
        value = key.read(stated) if key.read is not None else _as_usual(usual, stated)
        if facts.is_within(value):
            return value
    except (TypeError, ValueError):
        pass
    raise MappingError(
        f"config.json beside the checkpoint has no value of {key.name} that there is: give the "
        "settings that were saved with it."
    )


def _as_usual(usual: Any, stated: Any) -> Any:
    """Return what was stated as a value of the type that the field has. **Raises** `TypeError`."""
    if isinstance(usual, tuple) and isinstance(stated, list | tuple):
        return tuple(_as_usual(0, entry) for entry in stated)
    if type(stated) is type(usual) or (isinstance(usual, float) and type(stated) is int):
        return stated
    raise TypeError


def unstated_fields(
    config: NetworkConfig, shapes: Shapes, settings: Settings | None
) -> Iterator[str]:
    """Yield words about the fields that neither tensors nor settings determine, where the usual
    value may not be taken."""
    part = part_of(config, settings) if settings is not None else None
    for each in declared_fields(config):
        if each.facts is None or each.facts.ask is None:
            continue
        keys = each.facts.keys.items()
        if part is not None and any(_stated(library, key, part) for library, key in keys):
            continue
        if words := each.facts.ask(config, shapes, settings):
            yield words


def write_settings(
    config: Configuration, template: Template, library: str = TRANSFORMERS
) -> dict[str, Any]:
    """Return the settings of a library for a network, in the order of a template."""
    values = written_values(config, library)
    settings: dict[str, Any] = {}
    for part in template:
        if isinstance(part, str):
            settings[part.rpartition(".")[2]] = values[part]
        elif isinstance(part, Mapping):
            settings |= {
                key: each(config) if callable(each) else each for key, each in part.items()
            }
        else:
            settings |= part(config)
    return settings


def written_values(config: Configuration, library: str) -> dict[str, Any]:
    """Return what is written of the fields of a configuration, by their names in a library."""
    found: dict[str, Any] = {}
    for part in own_parts(config):
        found |= written_values(part.value, library)
    for each in declared_fields(config):
        if each.facts is not None and (key := each.facts.keys.get(library)) is not None:
            value = key.write(each.value) if key.write is not None else each.value
            found[key.name] = list(value) if isinstance(value, tuple) else value
    return found


def names_in_settings(config: Configuration, library: str = TRANSFORMERS) -> Iterator[str]:
    """Yield the names of a configuration's fields in a library's settings, and of its parts'."""
    for each in declared_fields(config):
        if isinstance(each.value, Configuration):
            yield from names_in_settings(each.value, library)
        elif each.facts is not None and (key := each.facts.keys.get(library)) is not None:
            yield key.name.rpartition(".")[2]


@dataclass(frozen=True)
class TransformersClass:
    """A class of transformers: its name, its configuration's, and the settings of a network.

    `antialias` says how it interpolates learned positions, `asks` that it only does where it is
    told to. `nested` is the part of its configuration that the settings are, where they are one.
    `auto` finds the class by its settings, `answers` are outputs that it has in place of features.
    One that is not `pooled` has a pooler of its own, which is no part of its classifiers. With
    `key_bias` it is told whether keys have a bias, and one that is `square` takes squares alone.
    `free` are settings that may have other values for the same network, `idle` those that change no
    answer.
    """

    name: str
    model_type: str
    template: Template
    antialias: bool = False
    asks: bool = False
    nested: str = ""
    auto: str = "AutoModel"
    answers: tuple[str, ...] = ()
    pooled: bool = True
    key_bias: bool = False
    square: bool = False
    free: tuple[str, ...] = ()
    idle: tuple[str, ...] = ()

    def settings(self, config: Configuration) -> dict[str, Any]:
        """Return the settings of a network of the class."""
        return write_settings(config, self.template)
