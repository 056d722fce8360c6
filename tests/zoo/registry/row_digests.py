"""Digests of what follows from the configuration of every published row: `row_digests.json`.

    python -m tests.zoo.registry.row_digests

writes the file again. A change of configurations that keeps all networks leaves it as it is.
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
    """Yield every published model with the names of each of its namings."""
    for entry in MODELS.values():
        for naming in dict.fromkeys(row.naming.name for row in entry.published):
            yield entry, naming


def key(entry: ModelInfo, naming: str) -> str:
    """Return what a row is called in the file."""
    return f"{entry.name} {naming}"


def digests(entry: ModelInfo, naming: str) -> str:
    """Return the digest of each part of a row, with what the part is."""
    config = next(row.config for row in entry.published if row.naming.name == naming)
    parts = {
        "leaves": model_shapes(config),
        "sizes": _sizes(entry, config),
        "config.json": _config_json(config, entry.class_names),
        "portable": portable_config(config, entry.class_names, entry.family),
        "equimo": _equimo(config),
        "text": config.text,
    }
    return ", ".join(f"{name} {_digest(value)}" for name, value in parts.items())


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:8]


def _sizes(entry: ModelInfo, config: Config) -> list[Any]:
    """Return the sizes in the shapes of the leaves, read as those of the same network and as those
    of another one of the family, in what is written of them."""
    shapes = model_shapes(config).get
    own, other = read_sizes(config, shapes), read_sizes(_first(entry.family, type(config)), shapes)
    if other is None:
        return [own == config, None]
    return [own == config, other.text, _config_json(other, ()), _equimo(other), other.is_sound]


@cache
def _first(family: str, kind: type[Config]) -> Config:
    """Return the first network of a family that is of a kind."""
    rows = (entry for entry in MODELS.values() if entry.family == family)
    return next(
        config
        for entry in rows
        for config in (entry.config, *(row.config for row in entry.published))
        if isinstance(config, kind)
    )


def _config_json(config: Config, names: tuple[str, ...]) -> object:
    """Return the settings of transformers in the order of the file, or why there are none."""
    try:
        return [*transformers_config(config, names, key_bias=False).items()]
    except BadRequest as error:
        return str(error)
    except AssertionError:  # of a network in sizes that it has not
        return "none"


def _equimo(config: Config) -> object:
    if architecture_of(config).equimo_settings is None:
        return "none"
    try:
        return [*equimo_metadata(config)["model_config"].items()]
    except BadRequest as error:
        return str(error)


if __name__ == "__main__":
    found = {key(*row): digests(*row) for row in rows()}
    FILE.write_text(json.dumps(found, indent=0) + "\n")
