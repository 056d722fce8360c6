"""What a folder's manifest says of its ONNX files, beyond what every reader of it needs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from zoo.errors import BadFile
from zoo.export.precision import LIMITS
from zoo.export.request import Precision
from zoo.manifest import read as artifact_json
from zoo.manifest.schema import MANIFEST, File


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
    """One ONNX file of a folder, and all its files: that one, and its sidecar if it has one."""

    name: str
    file: str
    files: tuple[str, ...]
    precision: Precision
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    fused: Mapping[str, int]


@dataclass(frozen=True)
class Folder:
    """What the checks of a folder need from its manifest."""

    model: str
    complete: bool
    files: tuple[File, ...]
    variants: tuple[Variant, ...]


def read(folder: Path) -> Folder:
    """**Raises** `BadFile` if the manifest is missing, damaged or of another format."""
    path = folder / MANIFEST
    try:
        artifact = artifact_json.read_folder(folder)
        content: Any = json.loads(path.read_bytes())
    except OSError as error:
        raise BadFile(f"{path} cannot be read ({error.strerror}): allow that.") from error
    return Folder(
        model=artifact.model,
        complete=artifact.complete,
        files=tuple(artifact.files.values()),
        variants=tuple(
            _variant(path, name, each.model, each.files, content["variants"][name])
            for name, each in artifact.variants.items()
        ),
    )


def _variant(path: Path, name: str, file: str, files: tuple[str, ...], item: object) -> Variant:
    match item:
        case {
            "precision": str(precision),
            "inputs": [*inputs],
            "outputs": [*outputs],
            "fused": dict(fused),
        } if precision in LIMITS and all(type(count) is int for count in fused.values()):
            return Variant(
                name=name,
                file=file,
                files=files,
                precision=precision,
                inputs=tuple(_tensor(path, item) for item in inputs),
                outputs=tuple(_tensor(path, item) for item in outputs),
                fused=fused,
            )
        case _:
            _refuse(path, f"its variant {name} lacks something, or has a wrong type")


def _tensor(path: Path, item: object) -> Tensor:
    match item:
        case {"name": str(name), "dtype": str(dtype), "shape": [*dims]} if all(
            type(dim) in (int, str) for dim in dims
        ):
            return Tensor(name, dtype, tuple(dims))
        case _:
            _refuse(path, f"it describes an input or output as {ascii(item)[:120]}")


def _refuse(path: Path, what: str) -> NoReturn:
    raise BadFile(f"{path} cannot be used: {what}. Build or pull the folder again.")
