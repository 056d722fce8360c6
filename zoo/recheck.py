"""`zoo verify FILE`: is an exported file still what its manifest says, and still right?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from weights import Weights
from weights.hub import Listener
from weights.locate import find_named
from zoo import manifest
from zoo.checkpoint import find, load, published
from zoo.entry import ModelInfo
from zoo.errors import BadFile
from zoo.models import abstract
from zoo.registry import info
from zoo.request import Choice, Input, Seed, Signature, read_weights
from zoo.staging import manifest_path
from zoo.verify import Verification, reference, verify


@dataclass(frozen=True)
class Record:
    """What a check needs from a manifest."""

    entry: ModelInfo
    signature: Signature
    weights: Mapping[str, Any]
    digests: Mapping[str, str]


def read_record(path: Path) -> Record:
    """**Raises** `BadFile` if the manifest is missing, damaged or somebody else's."""
    content = manifest.read(path)
    try:
        return Record(
            entry=info(content["model"]),
            signature=_signature(content),
            weights=dict(content["weights"]),
            digests={file["name"]: file["sha256"] for file in content["files"]},
        )
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise BadFile(f"{path} is damaged ({error!r}): export the model again.") from error


def _signature(content: Mapping[str, Any]) -> Signature:
    batch, *sides = content["inputs"][0]["shape"]
    # Images have any size; what they are resized to is part of the preprocessing.
    input: Input = "uint8" if content["input"] == "uint8" else "float32"
    size = content["preprocessing"]["size"] if input == "uint8" else sides[1:]
    return Signature(
        size=None if size[0] == "height" else (int(size[0]), int(size[1])),
        batch=batch if isinstance(batch, int) else None,
        layers=tuple(map(int, content["layers"])),
        as_maps=bool(content["reshape"]),
        input=input,
    )


def check_digests(file: Path, record: Record) -> None:
    """Refuse files that are not those the manifest describes."""
    if file.name not in record.digests:
        raise BadFile(
            f"the manifest of {file} describes {', '.join(record.digests)}: "
            "keep the names that export gave."
        )
    for name, digest in record.digests.items():
        path = file.with_name(name)
        if not path.is_file():
            raise BadFile(f"{path} is missing: export the model again.")
        if manifest.fingerprint(path)["sha256"] != digest:
            raise BadFile(f"{path} has changed since it was exported: export the model again.")


def read_choice(option: str | None, record: Record, listener: Listener) -> Choice:
    """The weights that the option names, by default those that the file was made from."""
    if option is not None:
        chosen = read_weights(option)
        return find(record.entry, listener).path if chosen == "auto" else chosen
    if record.weights["kind"] == "random":
        return Seed(record.weights["seed"])
    return find_named(record.weights["name"], published(record.entry))


def check_weights(weights: Weights, record: Record) -> None:
    """Refuse weights that the file was not made from."""
    found = weights.provenance
    if (found.seed, found.sha256) != (record.weights.get("seed"), record.weights.get("sha256")):
        raise BadFile(
            f"the file was made from other weights ({dict(record.weights)}): name those with "
            "`--weights`."
        )


def recheck(file: Path, weights_option: str | None, listener: Listener) -> Verification:
    """Check digests, then run the file and its model on the photograph again."""
    if not file.is_file():
        raise BadFile(f"{file} does not exist: give the path of an exported .onnx file.")
    record = read_record(manifest_path(file))
    check_digests(file, record)
    choice = read_choice(weights_option, record, listener)
    loaded = load(choice, record.entry, listener)
    check_weights(loaded.weights, record)
    model = abstract(loaded.config)
    samples = reference(record.entry, model, loaded.weights.arrays, record.signature)
    return verify(file, samples)
