"""A folder's manifest as data that can be relied on: every type checked, every name harmless."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, cast

from zoo.build.ledger import FORMAT, NAME
from zoo.errors import BadFile
from zoo.precision import LIMITS
from zoo.request import Precision

LARGEST = 16 << 20
"""Bytes of a manifest; real ones have some ten thousand."""

PART = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
PLAIN = re.compile(rf"{PART}(/{PART})*")
"""Relative names without `..`, without hidden parts, the same on every system."""


@dataclass(frozen=True)
class Listed:
    """A file that a manifest lists."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Tensor:
    """An input or output of a file; dimensions that are open have a name."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]

    def __str__(self) -> str:
        return f"{self.name} {self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Variant:
    """One ONNX file of a folder; the first of `files` is the file itself, the other its sidecar."""

    name: str
    files: tuple[str, ...]
    precision: Precision
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    fused: Mapping[str, int]

    @property
    def file(self) -> str:
        """The one that ends in `.onnx`."""
        return next(name for name in self.files if name.endswith(".onnx"))


@dataclass(frozen=True)
class Folder:
    """What the checks of a folder need from its manifest."""

    model: str
    complete: bool
    files: tuple[Listed, ...]
    variants: tuple[Variant, ...]


def read(folder: Path) -> Folder:
    """**Raises** `BadFile` if the manifest is missing, damaged or of another format."""
    path = folder / NAME
    if not path.is_file():
        raise BadFile(
            f"{folder} holds no {NAME}: give a folder that `zoo build` wrote, or an .onnx file."
        )
    try:
        if path.stat().st_size > LARGEST:
            _refuse(path, f"it has {path.stat().st_size} bytes")
        content: object = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadFile(
            f"{path} cannot be read ({error}): build or pull the folder again."
        ) from error
    match content:
        case {"format": str(name), "format_version": version} if name == FORMAT:
            if version != 1:
                _refuse(path, f"its format has version {ascii(version)[:20]}, this program knows 1")
            return _folder(path, cast(Mapping[str, Any], content))
        case _:
            _refuse(path, "it is not of the format of built folders")


def _folder(path: Path, content: Mapping[str, Any]) -> Folder:
    match content:
        case {
            "model": str(model),
            "complete": bool(complete),
            "files": list(files),
            "variants": dict(variants),
        }:
            listed = tuple(_listed(path, item) for item in files)
            names = [item.name for item in listed]
            if len({name.lower() for name in names}) < len(names) or NAME in names:
                _refuse(path, "it lists a file twice, or itself")
            found = tuple(_variant(path, name, item) for name, item in variants.items())
            lost = [name for variant in found for name in variant.files if name not in names]
            if lost:
                _refuse(path, f"a variant has {lost[0]}, which is not among the files")
            return Folder(_printable(model), complete, listed, found)
        case _:
            _refuse(path, "`model`, `complete`, `files` or `variants` is missing or no such thing")


def _listed(path: Path, item: object) -> Listed:
    match item:
        case {"name": str(name), "bytes": int(size), "sha256": str(digest)} if PLAIN.fullmatch(
            name
        ) and re.fullmatch("[0-9a-f]{64}", digest):
            return Listed(name, size, digest)
        case _:
            _refuse(path, f"it lists a file as {ascii(item)[:120]}")


def _variant(path: Path, name: str, item: object) -> Variant:
    match item:
        case {
            "files": [*files],
            "precision": str(precision),
            "inputs": [*inputs],
            "outputs": [*outputs],
            "fused": dict(fused),
        } if PLAIN.fullmatch(name) and precision in LIMITS and _counts(fused) and _onnx(files):
            return Variant(
                name=name,
                files=tuple(files),
                precision=precision,
                inputs=tuple(_tensor(path, item) for item in inputs),
                outputs=tuple(_tensor(path, item) for item in outputs),
                fused=fused,
            )
        case _:
            _refuse(path, f"its variant {ascii(name)[:40]} lacks something, or has a wrong type")


def _onnx(files: list[object]) -> bool:
    names = [name for name in files if isinstance(name, str)]
    return len(names) == len(files) and sum(name.endswith(".onnx") for name in names) == 1


def _counts(fused: Mapping[str, object]) -> bool:
    return all(type(count) is int for count in fused.values())


def _tensor(path: Path, item: object) -> Tensor:
    match item:
        case {"name": str(name), "dtype": str(dtype), "shape": [*dims]} if all(
            type(dim) in (int, str) for dim in dims
        ):
            return Tensor(name, dtype, tuple(dims))
        case _:
            _refuse(path, f"it describes an input or output as {ascii(item)[:120]}")


def _printable(text: str) -> str:
    return text if text.isprintable() and len(text) < 200 else ascii(text)[:200]


def _refuse(path: Path, what: str) -> NoReturn:
    raise BadFile(f"{path} is no sound manifest ({what}): build or pull the folder again.")
