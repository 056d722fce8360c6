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
from zoo.registry.lookup import MODELS, architecture, info

LARGEST_MANIFEST = 4 << 20
MOST_VALUES = 20_000
"""More than any manifest has, and few enough to go through if each one is wrong."""

MAKE_AGAIN = "Take another revision, or export, build or pull the files again."


def read_folder_manifest(folder: Path) -> Manifest:
    """Manifest of a folder. **Raises** `BadFile`."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "is a file" if folder.is_file() else "does not exist"
        what = "has no manifest.json" if folder.is_dir() else what
        raise BadFile(f"{folder} {what}: give a folder that `zoo build` or `zoo pull` made.")
    return read_manifest(path)


def near(file: Path) -> Manifest | None:
    """The manifest beside an ONNX file, or in the folder above; None if no sound one is there."""
    for path in (manifest_path(file), file.absolute().parent.parent / MANIFEST):
        with suppress(BadFile):
            return read_manifest(path)
    return None


def read_manifest(path: Path) -> Manifest:
    """The manifest at a path. **Raises** `BadFile`."""
    try:
        content = read_at_most(path, LARGEST_MANIFEST + 1)
    except FileNotFoundError as error:
        raise BadFile(f"{path} is missing: keep the manifest beside its files.") from error
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}): make it readable.") from error
    return parse(content, str(path))


def parse(content: bytes, origin: str, model: str | None = None) -> Manifest:
    """A manifest's content. **Raises** `BadFile`, also if it is of another model than `model`."""
    if len(content) > LARGEST_MANIFEST or content.count(b",") > MOST_VALUES:
        raise BadFile(f"{origin} cannot be used: it is too large for a manifest. {MAKE_AGAIN}")
    try:
        manifest = Manifest.model_validate_json(as_utf8(content))
    except ValidationError as error:
        raise BadFile(f"{origin} cannot be used: {first_fault(error)}. {MAKE_AGAIN}") from error
    if model is not None and manifest.model != model:
        trouble = f"it is of {manifest.model or 'no model'}, not of {model}"
        raise BadFile(f"{origin} cannot be used: {trouble}. {MAKE_AGAIN}")
    return manifest


def to_text(content: object) -> str:
    """JSON for files and for stdout: of a manifest, or of anything that has manifests in it."""
    return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=fields) + "\n"


def fields(value: object) -> object:
    """Fields of JSON for a part of a manifest."""
    if not isinstance(value, BaseModel):
        raise TypeError(f"JSON has nothing for a {type(value).__name__}.")
    # What was left out stays out.
    return value.model_dump(mode="json", exclude_unset=True)


def stated_entry(manifest: Manifest) -> ModelInfo:
    """The zoo's entry for the model of a manifest, or one for the network of somebody's own that it
    describes. **Raises** `UnknownModel`, or `BadFile` where that is of another kind."""
    if manifest.network is None:
        entry = info(manifest.model)
        is_other = len(manifest.classes) == entry.config.classes != 0
        return replace(entry, labels=manifest.classes) if is_other else entry
    family = architecture(manifest.family or manifest.model)
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
