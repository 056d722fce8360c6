"""The manifest of a built folder: read, and believed only as far as it makes sense.

It may come from a hub, so it may say anything: every name, size and digest is checked here, and
whoever uses them need not check again.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar, cast

from zoo.errors import BadFile
from zoo.manifest.schema import FORMAT, FORMAT_VERSION, MANIFEST, Artifact, File, Variant
from zoo.models.config import Preprocessing

LARGEST_MANIFEST = 4 << 20
LARGEST_FILE = 1 << 40
MOST_FILES = 1000

# No part begins with a dot, so that neither `..` nor a hidden file can be meant.
NAME = re.compile(r"(?=.{1,200}\Z)[A-Za-z0-9_][A-Za-z0-9_.-]*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*")
DIGEST = re.compile("[0-9a-f]{64}")

Json = Mapping[str, object]
T = TypeVar("T")


class _Nonsense(ValueError):
    """What is wrong with a manifest, in words that complete a sentence."""


def read_folder(folder: Path) -> Artifact:
    """What a folder says of itself. **Raises** `BadFile`."""
    path = folder / MANIFEST
    if not path.is_file():
        what = "has no manifest.json" if folder.is_dir() else "does not exist"
        raise BadFile(f"{folder} {what}: give a folder that `zoo build` or `zoo pull` made.")
    if path.stat().st_size > LARGEST_MANIFEST:
        raise BadFile(f"{path} is too large for a manifest: build or pull the folder again.")
    return parse(path.read_bytes(), str(path))


def parse(content: bytes, origin: str, model: str | None = None) -> Artifact:
    """A manifest's content. **Raises** `BadFile`, also if it is of another model than `model`."""
    try:
        record: object = json.loads(content)
        if not isinstance(record, dict):
            raise _Nonsense("it is no JSON object")
        artifact = _artifact(record)
        if model is not None and artifact.model != model:
            raise _Nonsense(f"it is of {artifact.model}, not of {model}")
    except (ValueError, OverflowError, RecursionError) as error:
        told = str(error) if isinstance(error, _Nonsense) else f"it is no JSON ({error!s:.80})"
        raise BadFile(
            f"{origin} cannot be used: {told}. Take another revision, or build the folder again."
        ) from error
    return artifact


def _artifact(record: Json) -> Artifact:
    version = (record.get("format"), record.get("format_version"))
    if version != (FORMAT, FORMAT_VERSION):
        raise _Nonsense(
            f"its format is {version[0]!r:.60}, version {version[1]!r:.20}, where {FORMAT!r}, "
            f"version {FORMAT_VERSION}, is understood"
        )
    files = _files(_field(record, "files", list))
    variants = {
        name: _variant(name, _mapping(item, f"variant {name!r:.60}"), files)
        for name, item in _field(record, "variants", dict).items()
    }
    if not variants:
        raise _Nonsense("it has no variants")
    return Artifact(
        model=_field(record, "model", str),
        input=cast(Literal["float32", "uint8"], _one_of(record, "input", ("float32", "uint8"))),
        size=None if record.get("size") is None else _size(record),
        preprocessing=_preprocessing(_field(record, "preprocessing", dict)),
        files=files,
        variants=variants,
        complete=_field(record, "complete", bool),
    )


def _files(items: Sequence[object]) -> dict[str, File]:
    if len(items) > MOST_FILES:
        raise _Nonsense(f"it lists {len(items)} files, more than {MOST_FILES}")
    files = [_file(_mapping(item, "an entry of `files`")) for item in items]
    # Some file systems do not tell A from a.
    names = {file.name.lower(): file for file in files}
    if len(names) < len(files) or MANIFEST in names:
        raise _Nonsense("it lists a file twice, or itself")
    for name in names:
        if any(str(parent) in names for parent in Path(name).parents):
            raise _Nonsense(f"it lists {name!r} inside of another file")
    return {file.name: file for file in files}


def _file(item: Json) -> File:
    name, size, digest = item.get("name"), item.get("bytes"), item.get("sha256")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise _Nonsense(f"it has a file called {name!r:.80}, which is no plain relative name")
    if type(size) is not int or not 0 <= size <= LARGEST_FILE:
        raise _Nonsense(f"{name} would have {size!r:.40} bytes")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise _Nonsense(f"{name} would have the sha256 {digest!r:.80}")
    return File(name, size, digest)


def _variant(name: str, item: Json, files: Mapping[str, File]) -> Variant:
    if not re.fullmatch("[a-z0-9_]{1,40}", name) or name == "all":
        raise _Nonsense(f"it has a variant called {name!r:.60}")
    parts = _field(item, "files", list)
    for part in parts:
        if not isinstance(part, str) or part not in files:
            raise _Nonsense(f"variant {name} needs {part!r:.80}, which is not among its files")
    if sum(part.endswith(".onnx") for part in parts) != 1:
        raise _Nonsense(f"variant {name} is not just one .onnx file")
    return Variant(
        name=name,
        files=tuple(parts),
        opset=_field(item, "opset", int),
        precision=_field(item, "precision", str),
        passed=_field(_field(item, "verification", dict), "passed", bool),
    )


def _preprocessing(item: Json) -> Preprocessing:
    resize = item.get("resize")
    if resize is not None and (type(resize) is not int or not 0 < resize <= 1 << 16):
        raise _Nonsense(f"images would be resized to {resize!r:.40}")
    mean, std = (cast("tuple[float, float, float]", _numbers(item, key)) for key in ("mean", "std"))
    if 0 in std:
        raise _Nonsense("`std` has a zero")
    (rescale,) = _numbers({"rescale": [item.get("rescale")]}, "rescale", 1)
    return Preprocessing(
        mean=mean,
        std=std,
        size=_size(item),
        resize=resize,
        rescale=rescale,
        rescale_first=_field(item, "rescale_first", bool),
        resample=cast(
            Literal["bilinear", "bicubic"], _one_of(item, "resample", ("bilinear", "bicubic"))
        ),
    )


def _size(item: Json) -> tuple[int, int]:
    """(height, width)."""
    match item.get("size"):
        case [int(height), int(width)] if 0 < height <= 1 << 16 and 0 < width <= 1 << 16:
            return height, width
        case size:
            raise _Nonsense(f"`size` is {size!r:.60}, not [height, width]")


def _numbers(item: Json, key: str, count: int = 3) -> tuple[float, ...]:
    values = _field(item, key, list)
    if len(values) == count and all(type(value) in (int, float) for value in values):
        numbers = tuple(float(value) for value in values)
        if all(math.isfinite(number) for number in numbers):
            return numbers
    raise _Nonsense(f"`{key}` is {values!r:.60}, not {count} finite numbers")


def _one_of(item: Json, key: str, choices: Sequence[str]) -> str:
    value = item.get(key)
    if value not in choices:
        raise _Nonsense(f"`{key}` is {value!r:.60}, not {' or '.join(choices)}")
    return cast(str, value)


def _field(item: Json, key: str, kind: type[T]) -> T:
    value = item.get(key)
    if type(value) is not kind:  # not isinstance: JSON's true is no number
        raise _Nonsense(f"`{key}` is {value!r:.60}, not of the type {kind.__name__}")
    return value


def _mapping(item: object, what: str) -> Json:
    if not isinstance(item, dict):
        raise _Nonsense(f"{what} is {item!r:.60}")
    return item
