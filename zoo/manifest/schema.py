"""A built folder, as its manifest describes it; `zoo.artifact_json` reads that."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from weights.files import sha256
from zoo.errors import BadRequest
from zoo.models.config import Preprocessing

MANIFEST = "manifest.json"
FORMAT = "jax-onnx-zoo folder"
FORMAT_VERSION = 1


@dataclass(frozen=True)
class File:
    """A file of the folder; `name` is relative, with `/` between its parts."""

    name: str
    bytes: int
    sha256: str

    def is_complete(self, folder: Path) -> bool:
        """Whether the folder has a regular file of this size, whatever is in it."""
        path = folder / self.name
        return path.is_file() and not path.is_symlink() and path.stat().st_size == self.bytes

    def is_at(self, folder: Path, step: Callable[[int], None] | None = None) -> bool:
        """Whether the folder has just this file; `step` is told how many bytes were compared."""
        return self.is_complete(folder) and sha256(folder / self.name, step) == self.sha256


@dataclass(frozen=True)
class Variant:
    """One ONNX file and what lies beside it."""

    name: str
    files: tuple[str, ...]
    opset: int
    precision: str
    passed: bool

    @property
    def model(self) -> str:
        """The ONNX file itself, relative to the folder."""
        return next(name for name in self.files if name.endswith(".onnx"))


@dataclass(frozen=True)
class Artifact:
    """What a folder's manifest says. `size` is (height, width), or None where both are open."""

    model: str
    input: Literal["float32", "uint8"]
    size: tuple[int, int] | None
    preprocessing: Preprocessing
    files: Mapping[str, File]
    variants: Mapping[str, Variant]
    complete: bool

    def one(self, name: str) -> Variant:
        """The variant of this name. **Raises** `BadRequest`."""
        if name not in self.variants:
            raise BadRequest(
                f"{self.model} has no variant {name!r} there: choose among "
                f"{', '.join(self.variants)}."
            )
        return self.variants[name]

    def pick(self, names: Sequence[str]) -> list[Variant]:
        """The variants of these names, or every one for `all`. **Raises** `BadRequest`."""
        asked = self.variants if "all" in names else dict.fromkeys(names)
        return [self.one(name) for name in asked]

    def needed(self, variants: Sequence[Variant]) -> list[File]:
        """The files of these variants and those that belong to none."""
        chosen = {name for variant in variants for name in variant.files}
        others = {name for variant in self.variants.values() for name in variant.files} - chosen
        return [file for name, file in self.files.items() if name not in others]
