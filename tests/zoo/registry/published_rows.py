"""Digests of what the package states about every published model, and of its namings' networks.

`python -m tests.zoo.registry.published_rows` writes the table that `test_published_rows.py`
compares with. Run it after an intended change of a statement, and review the difference.
"""

import hashlib
import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from zoo.architectures.entry import DATA, ModelInfo
from zoo.artifacts.schema import StatedLicence
from zoo.cli.models_command import model_record
from zoo.registry.lookup import MODELS
from zoo.registry.model_descriptions import describe_positions, describe_purpose

TABLE = Path(__file__).with_name("published_rows.json")


def describe_model(entry: ModelInfo) -> dict[str, Any]:
    """Return what `zoo info`, manifests and cards state about a model.

    This includes where its weights are looked for.
    """
    record = model_record(entry)
    record["weights"] = {**record["weights"], "here": None}  # This path depends on the machine.
    embedded = entry.published_files.embedded
    files = replace(entry.published_files, embedded=embedded and embedded.relative_to(DATA))
    return {
        "info": {
            name: repr(value) for name, value in sorted(record.items()) if name in COMPARED_KEYS
        },
        "words": (describe_purpose(entry), entry.preprocessing.description),
        "positions": describe_positions(entry.config),
        "html": entry._repr_html_(),
        "licence": StatedLicence(**asdict(entry.licence)).model_dump(),
        "results": (repr(entry.reported), entry.results_page, entry.class_names),
        "places": repr(files),
        "native": entry.native_size,
        "names": (entry.names, entry.weights_name, entry.recognised_files, entry.paper_pages),
        "unlisted": repr(entry.as_unpublished.licence),
    }


COMPARED_KEYS = frozenset(
    (
        *("name", "family", "aliases", "config", "namings", "preprocessing", "licence"),
        *("checkpoint", "digest", "archive", "repository", "hub", "mirrors", "parameters"),
        *("source", "papers", "purpose", "pooler", "labels", "examples", "embedded", "is_drawn"),
        *("reported", "architecture", "input_size", "native_size", "stride", "weights"),
    )
)
"""Keys of `zoo info --json` whose values are not tables by naming."""


def networks(entry: ModelInfo) -> list[tuple[str, str]]:
    """Return the configuration for each naming, with the options of its library."""
    return [(row.naming.name, f"{row.config!r} {row.options!r}") for row in entry.readable_namings]


def libraries(entry: ModelInfo) -> list[tuple[str, str]]:
    """Return the configuration that a library computes with the same weights, where it differs."""
    return [
        (row.naming.name, repr(row.library_config))
        for row in entry.published
        if row.library_config is not None
    ]


def digest(value: object) -> str:
    """Return the beginning of the sha256 of a value in JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def rows() -> dict[str, Any]:
    """Return the digests of all models: one of what is stated, and one of each naming's network."""
    return {
        name: {
            "said": digest(describe_model(entry)),
            "networks": [[naming, digest(text)] for naming, text in networks(entry)],
            "libraries": [[naming, digest(text)] for naming, text in libraries(entry)],
        }
        for name, entry in MODELS.items()
    }


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows().items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
