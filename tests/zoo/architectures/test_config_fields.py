"""Configurations of every kind, drawn: their fields come back from the shapes of tensors and from
the settings of other libraries."""

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
"""A field, and a way in which it came back: `leaf`, or a library."""


def options(row: Config) -> tuple[str, ...]:
    """Return the options of libraries that the tensors of a network decide."""
    if not isinstance(row, ViTConfig):
        return ()
    has_pool = row.pool in ("attention", None) and not row.cls_token
    return ("mask token", *["attention pool"] * has_pool)


def facts_in(config: Configuration) -> Iterator[tuple[Configuration, str, FieldFacts, Any]]:
    """Yield the fields of a configuration and of its parts that state something."""
    for each in declared_fields(config):
        if isinstance(each.value, Configuration):
            yield from facts_in(each.value)
        elif each.facts is not None:
            yield config, each.name, each.facts, each.value


def values_in(config: Configuration, path: str = "") -> dict[str, tuple[Way, Any]]:
    """Return the values of fields that state something, with the field, by their paths."""
    found: dict[str, tuple[Way, Any]] = {}
    for each in declared_fields(config):
        if isinstance(each.value, Configuration):
            found |= values_in(each.value, f"{path}{each.name}.")
        elif each.facts is not None:
            found[path + each.name] = ((type(config), each.name, ""), each.value)
    return found


def came_back(got: Config, wanted: Config, usual: Config, way: str) -> Iterator[Way]:
    """Yield the fields that are not as usual. **Raises** `AssertionError` for a wrong one."""
    before, after = values_in(usual), values_in(got)
    assert type(got) is type(wanted) and after.keys() == values_in(wanted).keys()
    for path, ((kind, name, _), value) in values_in(wanted).items():
        assert after[path][1] == value, (path, way)
        if before[path][1] != value:
            yield kind, name, way


def only_sizes(got: Config, wanted: Config) -> Config:
    """Return what was read with the settings that no leaf determines."""
    changed = {}
    for each, other in zip(declared_fields(got), declared_fields(wanted), strict=True):
        if isinstance(each.value, Configuration) and isinstance(other.value, Configuration):
            changed[each.name] = only_sizes(each.value, other.value)
        elif each.facts is not None and (each.facts.is_in_settings or each.name in UNSTATED):
            changed[each.name] = other.value
    return with_fields(got, **changed)


UNSTATED = ("grid", "columns", "points", "head_tokens")
"""Fields that settings complete, of sizes in shapes that may be several."""


def stated(file: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the settings in a file, and those of parts, by their names."""
    for name, value in file.items():
        yield name, value
        if isinstance(value, dict):
            yield from stated(value)


def ways(row: Config, config: Config) -> Iterator[Way]:
    """Yield the ways in which fields came back. **Raises** `AssertionError` for a wrong one."""
    shapes = model_shapes(config).get
    usual = with_options(row, options(row), shapes)
    sized = read_sizes(usual, shapes)
    assert sized is not None
    yield from came_back(only_sizes(sized, config), config, row, "leaf")
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
    got = complete_config(sized, CheckpointFacts("huggingface", read))
    if hasattr(config, "masked"):
        got = with_values(got, {"attn_mask_probs": np.array(config.masked or [0], np.float32)})
    yield from came_back(got, config, row, TRANSFORMERS)
    names = [*stated(file)]
    for part, name, facts, _ in facts_in(config):
        if (key := facts.keys.get(TRANSFORMERS)) is not None:
            own = values_to_write(part, TRANSFORMERS)[key.name]
            if (key.name.rpartition(".")[2], own) in names:
                yield type(part), name, "written for transformers"


def _of_timm(sized: Config, config: Config) -> Iterator[Way]:
    for part, name, facts, value in facts_in(config):
        if (key := facts.keys.get(TIMM)) is None or part is not config:
            continue
        file = {"architecture": "a", "model_args": {key.name: value}}
        read = Settings.model_validate_json(json.dumps(file))
        got = complete_config(sized, CheckpointFacts("timm", read))
        assert getattr(got, name) == value
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


def declared(kind: type[Configuration]) -> set[Way]:
    """Return every way in which a field of a class can come back."""
    found: set[Way] = set()
    for each in fields(kind):
        if (facts := each.metadata.get(FACTS)) is None:
            continue
        if facts.leaf is not None:
            found.add((kind, each.name, "leaf"))
        if facts.is_in_settings and facts.read_values is None:
            found.add((kind, each.name, TRANSFORMERS))
        if TRANSFORMERS in facts.keys:
            found.add((kind, each.name, "written for transformers"))
        found |= {(kind, each.name, library) for library in (TIMM, EQUIMO) if library in facts.keys}
        found |= {(kind, each.name, "values")} if facts.read_values is not None else set()
    return found


def parts_of(config: Configuration) -> set[type[Configuration]]:
    """Return the classes of a configuration and of its parts."""
    values = (each.value for each in declared_fields(config))
    parts = (parts_of(value) for value in values if isinstance(value, Configuration))
    return {type(config)}.union(*parts)


def reached_from(row: Config, examples: int) -> set[Way]:
    """Return the ways in which fields of drawn networks of a row's architecture came back."""
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
        reached.update(ways(row, config))

    check()
    return reached


@pytest.mark.parametrize("examples", [12, pytest.param(150, marks=pytest.mark.full)])
def test_fields_come_back(examples):
    """From tensors, and from the settings of transformers and timm; Equimo's have their values."""
    reached: set[Way] = set()
    for kind in DRAWN:
        for row in rows(kind):
            reached |= reached_from(row, max(3, examples // len(rows(kind))))
    classes = set().union(*(parts_of(row) for row in chain(*map(rows, DRAWN))))
    unreached = set().union(*map(declared, classes)) - reached
    assert not unreached, "\n".join(f"{kind.__name__}.{way}" for kind, *way in unreached)


JUNK = ("x", "", -1, 0, 10**12, 0.5, True, None, [], {}, [1, "a"], [1, 2], [10**12] * 3, [-1] * 4)
"""What somebody may write in place of a setting."""


def junk_files(config: Config) -> Iterator[tuple[str, FieldFacts, dict[str, Any]]]:
    """Yield fields of a network that settings state, with a file that states one of them."""
    for each, (library, junk) in product(facts_in(config), product((TRANSFORMERS, TIMM), JUNK)):
        part, name, facts, _ = each
        if facts.is_in_settings and library in facts.keys and not _is_of_tower(config, part):
            *path, key = facts.keys[library].name.split(".")
            file: dict[str, Any] = {key: junk}
            for outer in reversed(path):
                file = {outer: file}
            if library == TIMM:
                file = {"model_args": file}
            yield name, facts, {"backbone_config": {}, **file} if config.required_setting else file


def _is_of_tower(config: Config, part: Configuration) -> bool:
    """Return whether a part is of a network inside, which has rows of its own."""
    return all(
        part is not own for own in (config, *(each.value for each in nested_configs(config)))
    )


@pytest.mark.parametrize("kind", DRAWN)
def test_settings_are_within_bounds(kind):
    """Whatever a file states is refused, says nothing, or is a value that the field can have."""
    files = refused = 0
    for row in rows(kind):
        for name, facts, file in junk_files(row):
            files += 1
            try:
                read = Settings.model_validate_json(json.dumps(file))
                got = complete_config(row, CheckpointFacts("huggingface", read))
            except (ValidationError, MappingError):
                refused += 1
                continue
            for path, (_, value) in values_in(got).items():
                usual = values_in(row)[path][1]
                assert type(value) is type(usual) or None in (value, usual), (path, file)
            found = [value for (_, own, _), value in values_in(got).values() if own == name]
            assert all(map(facts.is_within, found)), file
    assert 4 * refused >= files


def test_networks_are_compared():
    """But for details; then but for sizes and settings too."""
    row = rows(ViTConfig)[0]
    detailed, sized = replace(row, classes=9, norm_eps=1e-3), replace(row, dim=2 * row.dim)
    assert have_same_sizes(row, detailed) and not have_same_sizes(row, sized)
    assert have_same_architecture(row, sized)
    assert not have_same_architecture(row, replace(row, qk_norm=not row.qk_norm))


def test_equimo_has_the_settings():
    from equimo.models.vit import VisionTransformer

    from zoo.registry.lookup import info

    names = inspect.signature(VisionTransformer.__init__).parameters
    written = equimo_metadata(info("vit5_small").config)["model_config"]
    assert written.keys() <= names.keys()
