"""Digests of what follows from the configuration of every published row: `row_digests.json`.

    python -m tests.zoo.registry.row_digests

writes the file again. A change of configurations that keeps all networks does not change the file.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.kinds import architecture_of, read_sizes
from zoo.checkpoints.load import model_shapes
from zoo.checkpoints.settings.library_configs import (
    equimo_metadata,
    portable_config,
    transformers_config,
)
from zoo.common.errors import BadRequest
from zoo.registry.lookup import MODELS

FILE = Path(__file__).with_suffix(".json")


def rows() -> Iterator[tuple[ModelInfo, str]]:
    """Yield every published model with the name of each of its namings."""
    for entry in MODELS.values():
        for naming in dict.fromkeys(row.naming.name for row in entry.published):
            yield entry, naming


def key(entry: ModelInfo, naming: str) -> str:
    """Return the key of a row in the file."""
    return f"{entry.name} {naming}"


def digests(entry: ModelInfo, naming: str) -> str:
    """Return the digest of each part of a row, with the part's name."""
    config = _find_config(entry, naming)
    networks = {"leaves": model_shapes(config), "sizes": _sizes(entry, config)}
    return f"{_join_digests(networks)}, {digests_of_settings(entry, naming)}"


def digests_of_settings(entry: ModelInfo, naming: str) -> str:
    """Return the digests of the parts of a row for which no network is traced."""
    config = _find_config(entry, naming)
    settings = {
        "config.json": _config_json(config, entry.class_names),
        "portable": portable_config(config, entry.class_names, entry.family),
        "equimo": _equimo(config),
        "text": config.description,
    }
    return _join_digests(settings)


def _join_digests(parts: dict[str, object]) -> str:
    return ", ".join(f"{name} {_digest(value)}" for name, value in parts.items())


def _find_config(entry: ModelInfo, naming: str) -> Config:
    return next(row.config for row in entry.published if row.naming.name == naming)


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def _sizes(entry: ModelInfo, config: Config) -> list[Any]:
    """Return what is read from the shapes of the leaves.

    The shapes are read with the row's own configuration, and with that of the first network of the
    family. The result of the second is represented by what would be written for it.
    """
    shapes = model_shapes(config).get
    from_row, from_first = (
        read_sizes(config, shapes),
        read_sizes(_first(entry.family, type(config)), shapes),
    )
    if from_first is None:
        return [from_row == config, None]
    return [
        from_row == config,
        from_first.description,
        _config_json(from_first, ()),
        _equimo(from_first),
        from_first.is_sound,
    ]


@cache
def _first(family: str, kind: type[Config]) -> Config:
    """Return the first configuration of a family that has this type."""
    rows = (entry for entry in MODELS.values() if entry.family == family)
    return next(
        config
        for entry in rows
        for config in (entry.config, *(row.config for row in entry.published))
        if isinstance(config, kind)
    )


def _config_json(config: Config, names: tuple[str, ...]) -> object:
    """Return transformers' settings in the order of the file, or why there are none."""
    try:
        return [*transformers_config(config, names, key_bias=False).items()]
    except BadRequest as error:
        return str(error)
    except AssertionError:  # transformers has no network of this kind with these sizes
        return "none"


def _equimo(config: Config) -> object:
    if architecture_of(config).equimo_settings is None:
        return "none"
    try:
        return [*equimo_metadata(config)["model_config"].items()]
    except BadRequest as error:
        return str(error)


if __name__ == "__main__":
    digests_by_row = {key(*row): digests(*row) for row in rows()}
    FILE.write_text(json.dumps(digests_by_row, indent=0) + "\n")
