"""Read and write manifests, and look up the model that a manifest names."""

import json
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ValidationError

from weights.opening import as_utf8, read_at_most
from zoo.architectures.entry import Licence, ModelInfo
from zoo.artifacts.schema import MANIFEST, Manifest
from zoo.common.errors import BadFile
from zoo.common.fields import first_fault
from zoo.common.staging import manifest_path
from zoo.registry.lookup import MODELS, find_model_or_family, info

MAX_MANIFEST_BYTES = 4 << 20
"""The largest size of a manifest."""
MAX_COMMAS = 20_000
"""The largest number of commas in a manifest.

It is more than any manifest has, and so few that validation is quick even if every value is wrong.
"""

RETRY_ADVICE = "Take another revision, or export, build or pull the files again."


def read_folder_manifest(folder: Path) -> Manifest:
    """Return the manifest.json of a folder.

    **Raises** `BadFile` if it does not exist or is invalid.
    """
    path = folder / MANIFEST
    if not path.is_file():
        problem = "is a file" if folder.is_file() else "does not exist"
        problem = "has no manifest.json" if folder.is_dir() else problem
        raise BadFile(f"{folder} {problem}: give a folder that `zoo build` or `zoo pull` made.")
    return read_manifest(path)


def read_nearby_manifest(file: Path) -> Manifest | None:
    """Return the manifest of an ONNX file, or None if no valid manifest is found.

    It is `NAME.manifest.json` next to the file `NAME.onnx`, or else `manifest.json` in the parent
    of the file's folder. Whether the manifest lists the file is not checked.
    """
    for path in (manifest_path(file), file.absolute().parent.parent / MANIFEST):
        with suppress(BadFile):
            return read_manifest(path)
    return None


def read_manifest(path: Path) -> Manifest:
    """Read a manifest from a file.

    **Raises** `BadFile` if the file cannot be read or is invalid.
    """
    try:
        content = read_at_most(path, MAX_MANIFEST_BYTES + 1)
    except FileNotFoundError as error:
        raise BadFile(f"{path} is missing: keep the manifest beside its files.") from error
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}): make it readable.") from error
    return parse_manifest(content, str(path))


def parse_manifest(content: bytes, origin: str, model: str | None = None) -> Manifest:
    """Return the manifest that JSON bytes describe.

    **Arguments**

    - `content`: the bytes.
    - `origin`: the name of the file in error messages.
    - `model`: the name of the model that the manifest must describe, or None for any.

    **Raises** `BadFile` if the manifest is invalid, too large, or describes another model.
    """
    if len(content) > MAX_MANIFEST_BYTES or content.count(b",") > MAX_COMMAS:
        raise BadFile(f"{origin} cannot be used: it is too large for a manifest. {RETRY_ADVICE}")
    try:
        manifest = Manifest.model_validate_json(as_utf8(content))
    except ValidationError as error:
        raise BadFile(f"{origin} cannot be used: {first_fault(error)}. {RETRY_ADVICE}") from error
    if model is not None and manifest.model != model:
        problem = f"it is of {manifest.model or 'no model'}, not of {model}"
        raise BadFile(f"{origin} cannot be used: {problem}. {RETRY_ADVICE}")
    return manifest


def to_text(content: object) -> str:
    """Return a manifest, or a value that contains manifests, as indented JSON with a line end.

    **Raises** `ValueError` for an infinity or NaN, and `TypeError` for a value that JSON and
    `to_json_fields` cannot represent.
    """
    return (
        json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=to_json_fields)
        + "\n"
    )


def to_json_fields(value: object) -> object:
    """Return the fields of a part of a manifest as a dictionary. Only fields that were set are
    returned.

    This is the `default` of `json.dumps`. **Raises** `TypeError` for a value of any other type.
    """
    if not isinstance(value, BaseModel):
        raise TypeError(f"a {type(value).__name__} cannot be written as JSON.")
    # Fields that the file does not state are not written either.
    return value.model_dump(mode="json", exclude_unset=True)


def entry_of_manifest(manifest: Manifest) -> ModelInfo:
    """Return the entry of the model that a manifest describes.

    It is the zoo's entry, with the class names of the manifest if their number is that of the
    network's classes. If the manifest contains the configuration of a custom network, it is an
    entry for this network.

    **Raises** `UnknownModel` if the zoo does not have the model, and `BadFile` if the network is
    not of the stated family.
    """
    if manifest.network is None:
        entry = info(manifest.model)
        has_class_names = len(manifest.classes) == entry.config.classes != 0
        return replace(entry, labels=manifest.classes) if has_class_names else entry
    family = find_model_or_family(manifest.family or manifest.model)
    kinds = {type(entry.config) for entry in MODELS.values() if entry.family == family.family}
    if type(manifest.network) not in kinds:
        raise BadFile(
            f"a manifest says that {ascii(manifest.model)[1:-1]} is of {family.family}, and its "
            "network is of another kind: export, build or pull it again."
        )
    licence = Licence(**manifest.licence.model_dump())
    return replace(
        family.with_config(manifest.network).with_licence(licence),
        name=manifest.model,
        aliases=manifest.aliases,
        labels=manifest.classes,
        preprocessing=manifest.preprocessing.settings,
        parameters=manifest.parameters,
        digest="",
    )
