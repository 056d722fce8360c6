"""Digests of what the package says of every published model, and the networks of its namings.

`python -m tests.zoo.registry.published_rows` writes the table that `test_published_rows.py`
compares with: run it where a change of what is said is wanted, and look at the difference.
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


def described(entry: ModelInfo) -> dict[str, Any]:
    """What `zoo info`, manifests and cards say of a model, and where its weights are looked for."""
    record = model_record(entry)
    record["weights"] = {**record["weights"], "here": None}  # of this machine
    embedded = entry.published_files.embedded
    places = replace(entry.published_files, embedded=embedded and embedded.relative_to(DATA))
    return {
        "info": {name: repr(value) for name, value in sorted(record.items()) if name in SAID},
        "words": (describe_purpose(entry), entry.preprocessing.description),
        "positions": describe_positions(entry.config),
        "html": entry._repr_html_(),
        "licence": StatedLicence(**asdict(entry.licence)).model_dump(),
        "results": (repr(entry.reported), entry.results_page, entry.class_names),
        "places": repr(places),
        "native": entry.native,
        "names": (entry.names, entry.file, entry.files, entry.paper_pages),
        "unlisted": repr(entry.as_unpublished.licence),
    }


SAID = frozenset(
    (
        *("name", "family", "aliases", "config", "namings", "preprocessing", "licence"),
        *("checkpoint", "digest", "archive", "repository", "hub", "mirrors", "parameters"),
        *("source", "papers", "purpose", "pooler", "labels", "examples", "embedded", "is_drawn"),
        *("reported", "architecture", "input_size", "native_size", "stride", "weights"),
    )
)
"""Keys of `zoo info --json` that are no tables by the name of a naming."""


def networks(entry: ModelInfo) -> list[tuple[str, str]]:
    """The network that a checkpoint in each naming is of, with the options of its library."""
    return [
        (each.naming.name, f"{each.config!r} {each.options!r}") for each in entry.readable_namings
    ]


def libraries(entry: ModelInfo) -> list[tuple[str, str]]:
    """The network that a library computes with the same weights, where it is another."""
    return [
        (e.naming.name, repr(e.library_config))
        for e in entry.published
        if e.library_config is not None
    ]


def digest(value: object) -> str:
    """The beginning of the sha256 of a value in JSON."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


def rows() -> dict[str, Any]:
    """All models: a digest of what is said of each, and one of each naming's network."""
    return {
        name: {
            "said": digest(described(entry)),
            "networks": [[naming, digest(text)] for naming, text in networks(entry)],
            "libraries": [[naming, digest(text)] for naming, text in libraries(entry)],
        }
        for name, entry in MODELS.items()
    }


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in rows().items())
    TABLE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
