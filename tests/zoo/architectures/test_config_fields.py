"""Fields of drawn configurations are read from tensor shapes and from other libraries' settings."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import ValidationError

from tests.zoo.architectures.drawn_configs import DRAWN, drawn, rows
from weights.errors import MappingError
from zoo.architectures.architecture import CheckpointFacts, Config
from zoo.architectures.config_fields import (
    FACTS,
    Configuration,
    FieldFacts,
    declared_fields,
    have_same_architecture,
    have_same_sizes,
    nested_configs,
    with_fields,
    with_values,
)
from zoo.architectures.config_settings import EQUIMO, TIMM, TRANSFORMERS, values_to_write
from zoo.architectures.kinds import architecture_of, complete_config, read_sizes, with_options
from zoo.architectures.library_settings import Settings
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.settings.library_configs import equimo_metadata, transformers_config
from zoo.common.errors import BadRequest

Way = tuple[type[Configuration], str, str]
"""A field by class and name, and a way in which it was read back: `leaf`, `values` or a library."""


def options(row: Config) -> tuple[str, ...]:
    """Return the options of libraries that the tensors of a network decide."""
    if not isinstance(row, ViTConfig):
        return ()
    has_pool = row.pool in ("attention", None) and not row.cls_token
    return ("mask token", *["attention pool"] * has_pool)


def facts_in(config: Configuration) -> Iterator[tuple[Configuration, str, FieldFacts, Any]]:
    """Yield (configuration, name, facts, value) of the fields with facts, also in parts."""
    for field in declared_fields(config):
        if isinstance(field.value, Configuration):
            yield from facts_in(field.value)
        elif field.facts is not None:
            yield config, field.name, field.facts, field.value


def values_in(config: Configuration, path: str = "") -> dict[str, tuple[Way, Any]]:
    """Return the values of the fields with facts by their paths, each with its field."""
    values: dict[str, tuple[Way, Any]] = {}
    for field in declared_fields(config):
        if isinstance(field.value, Configuration):
            values |= values_in(field.value, f"{path}{field.name}.")
        elif field.facts is not None:
            values[path + field.name] = ((type(config), field.name, ""), field.value)
    return values


def matching_fields(actual: Config, expected: Config, original: Config, way: str) -> Iterator[Way]:
    """Yield the fields that differ from those of `original` and were read back correctly.

    **Raises** `AssertionError` if a value is not that of `expected`.
    """
    before, after = values_in(original), values_in(actual)
    assert type(actual) is type(expected) and after.keys() == values_in(expected).keys()
    for path, ((kind, name, _), value) in values_in(expected).items():
        assert after[path][1] == value, (path, way)
        if before[path][1] != value:
            yield kind, name, way


def with_expected_settings(actual: Config, expected: Config) -> Config:
    """Replace the settings that no leaf determines by the expected ones.

    `actual` is a configuration that was read from shapes.
    """
    changed = {}
    for field, expected_field in zip(
        declared_fields(actual), declared_fields(expected), strict=True
    ):
        if isinstance(field.value, Configuration) and isinstance(
            expected_field.value, Configuration
        ):
            changed[field.name] = with_expected_settings(field.value, expected_field.value)
        elif field.facts is not None and (field.facts.is_in_settings or field.name in UNSTATED):
            changed[field.name] = expected_field.value
    return with_fields(actual, **changed)


UNSTATED = ("grid", "columns", "points", "head_tokens")
"""Fields that settings complete, because several sizes give the same shape."""


def settings_in(file: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the names and values of the settings in a file, also of its parts."""
    for name, value in file.items():
        yield name, value
        if isinstance(value, dict):
            yield from settings_in(value)


def ways_reached(row: Config, config: Config) -> Iterator[Way]:
    """Yield the ways in which fields were read back.

    **Raises** `AssertionError` for a wrong value.
    """
    shapes = model_shapes(config).get
    with_row_settings = with_options(row, options(row), shapes)
    sized = read_sizes(with_row_settings, shapes)
    assert sized is not None
    yield from matching_fields(with_expected_settings(sized, config), config, row, "leaf")
    for part, name, facts, value in facts_in(config):
        if facts.read_values is not None and value:
            read = with_values(part, {"attn_mask_probs": np.array(value, np.float32)})
            assert getattr(read, name) == value
            yield type(part), name, "values"
    yield from _of_transformers(row, sized, config)
    yield from _of_timm(sized, config)
    yield from _of_equimo(config)


def _of_transformers(row: Config, sized: Config, config: Config) -> Iterator[Way]:
    try:
        file = transformers_config(config, (), key_bias=False)
    except BadRequest:
        return
    read = Settings.model_validate_json(json.dumps(file))
    actual = complete_config(sized, CheckpointFacts("huggingface", read))
    if hasattr(config, "masked"):
        actual = with_values(
            actual, {"attn_mask_probs": np.array(config.masked or [0], np.float32)}
        )
    yield from matching_fields(actual, config, row, TRANSFORMERS)
    names = [*settings_in(file)]
    for part, name, facts, _ in facts_in(config):
        if (key := facts.keys.get(TRANSFORMERS)) is not None:
            written = values_to_write(part, TRANSFORMERS)[key.name]
            if (key.name.rpartition(".")[2], written) in names:
                yield type(part), name, "written for transformers"


def _of_timm(sized: Config, config: Config) -> Iterator[Way]:
    for part, name, facts, value in facts_in(config):
        if (key := facts.keys.get(TIMM)) is None or part is not config:
            continue
        file = {"architecture": "a", "model_args": {key.name: value}}
        read = Settings.model_validate_json(json.dumps(file))
        actual = complete_config(sized, CheckpointFacts("timm", read))
        assert getattr(actual, name) == value
        yield type(part), name, TIMM


def _of_equimo(config: Config) -> Iterator[Way]:
    if architecture_of(config).equimo_settings is None:
        return
    try:
        file = equimo_metadata(config)["model_config"]
    except BadRequest:
        return
    for part, name, facts, _ in facts_in(config):
        if (key := facts.keys.get(EQUIMO)) is not None and key.name in file:
            assert file[key.name] == values_to_write(part, EQUIMO)[key.name]
            yield type(part), name, EQUIMO


def declared_ways(kind: type[Configuration]) -> set[Way]:
    """Return every way in which a field of a class can be read back."""
    found_ways: set[Way] = set()
    for field in fields(kind):
        if (facts := field.metadata.get(FACTS)) is None:
            continue
        if facts.leaf is not None:
            found_ways.add((kind, field.name, "leaf"))
        if facts.is_in_settings and facts.read_values is None:
            found_ways.add((kind, field.name, TRANSFORMERS))
        if TRANSFORMERS in facts.keys:
            found_ways.add((kind, field.name, "written for transformers"))
        found_ways |= {
            (kind, field.name, library) for library in (TIMM, EQUIMO) if library in facts.keys
        }
        found_ways |= {(kind, field.name, "values")} if facts.read_values is not None else set()
    return found_ways


def parts_of(config: Configuration) -> set[type[Configuration]]:
    """Return the classes of a configuration and of its parts."""
    values = (field.value for field in declared_fields(config))
    parts = (parts_of(value) for value in values if isinstance(value, Configuration))
    return {type(config)}.union(*parts)


def reached_from(row: Config, examples: int) -> set[Way]:
    """Return the ways in which fields of drawn configurations were read back.

    They have the architecture of the row.
    """
    reached: set[Way] = set()

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=[*HealthCheck],
    )
    @given(drawn(row))
    def check(config):
        assert config.is_sound
        reached.update(ways_reached(row, config))

    check()
    return reached


@pytest.mark.parametrize("examples", [12, pytest.param(150, marks=pytest.mark.full)])
def test_fields_are_read_back(examples):
    """Every field with facts is read back in each of its ways.

    The ways are tensors and the settings of transformers and timm. Equimo's settings are only
    written.
    """
    reached: set[Way] = set()
    for kind in DRAWN:
        for row in rows(kind):
            reached |= reached_from(row, max(3, examples // len(rows(kind))))
    classes = set().union(*(parts_of(row) for row in chain(*map(rows, DRAWN))))
    unreached = set().union(*map(declared_ways, classes)) - reached
    assert not unreached, "\n".join(f"{kind.__name__}.{way}" for kind, *way in unreached)


JUNK = ("x", "", -1, 0, 10**12, 0.5, True, None, [], {}, [1, "a"], [1, 2], [10**12] * 3, [-1] * 4)
"""Invalid or unusual values that a user may write for a setting."""


def junk_files(config: Config) -> Iterator[tuple[str, FieldFacts, dict[str, Any]]]:
    """Yield fields that settings state, and files in which one setting has an unusual value."""
    for item, (library, junk) in product(facts_in(config), product((TRANSFORMERS, TIMM), JUNK)):
        part, name, facts, _ = item
        if facts.is_in_settings and library in facts.keys and not _is_of_tower(config, part):
            *path, key = facts.keys[library].name.split(".")
            file: dict[str, Any] = {key: junk}
            for outer in reversed(path):
                file = {outer: file}
            if library == TIMM:
                file = {"model_args": file}
            yield name, facts, {"backbone_config": {}, **file} if config.required_setting else file


def _is_of_tower(config: Config, part: Configuration) -> bool:
    """Return whether a part belongs to a nested network, which has its own rows."""
    return all(
        part is not own_part
        for own_part in (config, *(field.value for field in nested_configs(config)))
    )


@pytest.mark.parametrize("kind", DRAWN)
def test_settings_are_within_bounds(kind):
    """A setting is refused, ignored, or read as a value that the field can have."""
    files = refused = 0
    for row in rows(kind):
        for name, facts, file in junk_files(row):
            files += 1
            try:
                read = Settings.model_validate_json(json.dumps(file))
                actual = complete_config(row, CheckpointFacts("huggingface", read))
            except (ValidationError, MappingError):
                refused += 1
                continue
            for path, (_, value) in values_in(actual).items():
                default = values_in(row)[path][1]
                assert type(value) is type(default) or None in (value, default), (path, file)
            read_values = [
                value
                for (_, field_name, _), value in values_in(actual).values()
                if field_name == name
            ]
            assert all(map(facts.is_within, read_values)), file
    assert 4 * refused >= files


def test_networks_are_compared():
    """Sizes are compared without details, and architectures without details, sizes and settings."""
    row = rows(ViTConfig)[0]
    detailed, sized = replace(row, classes=9, norm_eps=1e-3), replace(row, dim=2 * row.dim)
    assert have_same_sizes(row, detailed) and not have_same_sizes(row, sized)
    assert have_same_architecture(row, sized)
    assert not have_same_architecture(row, replace(row, qk_norm=not row.qk_norm))


def test_equimo_accepts_written_settings():
    from equimo.models.vit import VisionTransformer

    from zoo.registry.lookup import info

    names = inspect.signature(VisionTransformer.__init__).parameters
    written = equimo_metadata(info("vit5_small").config)["model_config"]
    assert written.keys() <= names.keys()
