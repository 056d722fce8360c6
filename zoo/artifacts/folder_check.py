"""Check that a folder has the files of its manifest, with their digests, and no others."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.files import digest_of
from weights.opening import State, open_inside
from weights.progress import Progress
from zoo.artifacts.measured import Verification
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile
from zoo.common.staging import links
from zoo.images.pixel_values import Size


@dataclass(frozen=True)
class Finding:
    """How one check went; `detail` says in words what was found, and what was asked."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Residuals:
    """Absolute differences of outputs for one image of `grid`, rows and columns of patches."""

    grid: Size
    outputs: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class NumbersCheck:
    """How a file's numbers are; `residuals` computes where they differ, if they could be had."""

    finding: Finding
    verification: Verification | None = None
    residuals: Callable[[], Residuals] | None = None


def residuals(
    grid: Size, got: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> Residuals:
    """Residuals of outputs by their names, in float32."""
    pairs = {name: (np.asarray(got[name], np.float32), expected[name]) for name in expected}
    return Residuals(grid, {name: abs(have - want) for name, (have, want) in pairs.items()})


@dataclass(frozen=True)
class FileReport:
    """All checks of one ONNX file; `verification` has those of its numbers, if it ran.

    `residuals` says where these lie. `elsewhere` counts the nodes, by provider and operator, that
    other providers than the chosen one compute; None if the file did not load.
    """

    name: str
    file: str
    passed: bool
    findings: Sequence[Finding]
    verification: Verification | None = None
    elsewhere: Mapping[str, Mapping[str, int]] | None = None
    residuals: Callable[[], Residuals] | None = None


@dataclass(frozen=True)
class AuditReport:
    """All checks of a folder, or of one file in it; `absent` names the variants without files."""

    folder: str
    model: str
    provider: str
    passed: bool
    findings: Sequence[Finding]
    variants: Sequence[FileReport]
    absent: Sequence[str] = ()


AGAIN = "build the folder again, or `zoo pull --variant all` it"


def check_folder(folder: Path, progress: Progress) -> Manifest:
    """Refuse a folder that is not just what was built and verified. **Raises** `BadFile`."""
    manifest = read_folder_manifest(folder)
    if not manifest.complete:
        raise BadFile(f"{folder} is not complete: run `zoo build` to its end.")
    for label, variant in manifest.variants.items():
        if not variant.passed:
            raise BadFile(f"variant {label} of {folder} failed its verification: {AGAIN}.")
    for finding in (check_others(folder, manifest), check_listed(folder, manifest.files, progress)):
        if not finding.passed:
            raise BadFile(f"{folder} is not what its manifest says ({finding.detail}): {AGAIN}.")
    return manifest


def present(folder: Path, manifest: Manifest) -> list[str]:
    """The variants of which at least one file is there."""
    return [
        name
        for name, variant in manifest.variants.items()
        if any(os.path.lexists(folder / file) for file in variant.files)
    ]


def check_listed(folder: Path, items: Collection[File], progress: Progress) -> Finding:
    """Presence, size and digest of files."""
    return as_listed(items, wrong_files(folder, items, progress))


def wrong_files(folder: Path, items: Collection[File], progress: Progress) -> dict[str, str]:
    """Faults of files that are not as they are listed, by name."""
    progress.stage("checking digests", sum(max(item.bytes, 0) for item in items))
    return {item.name: line for item in items if (line := _wrong(folder, item, progress))}


def as_listed(items: Collection[File], wrong: Mapping[str, str]) -> Finding:
    """Whether all files are as they are listed."""
    return Finding("files", not wrong, "; ".join(wrong.values()) or f"{len(items)} as listed")


def _wrong(folder: Path, item: File, progress: Progress) -> str | None:
    try:
        with open_inside(folder, item.name) as file:
            size = State.of(file).size
            if size != item.bytes:
                return f"{item.name} has {size} bytes instead of {item.bytes}"
            if digest_of(file, progress.step) != item.sha256:
                return f"{item.name} has another sha256"
    except FileNotFoundError:
        return f"{item.name} is missing"
    except OSError as error:
        if links(folder, item.name):
            return f"{item.name} is reached through a symbolic link"
        return f"{item.name} cannot be read ({error.strerror})"
    return None


def check_others(folder: Path, manifest: Manifest) -> Finding:
    """Files that are not listed, and symbolic links; what is hidden does not count."""
    listed = {MANIFEST, *manifest.listed}
    wrong = sorted(_strange(folder, folder, listed))
    shown = wrong[:10] + [f"{len(wrong) - 10} more"] * (len(wrong) > 10)
    return Finding("nothing else", not wrong, "; ".join(shown) or "no other files, no links")


def _strange(folder: Path, place: Path, listed: Collection[str]) -> Iterator[str]:
    try:
        entries = [entry for entry in os.scandir(place) if not entry.name.startswith(".")]
    except OSError as error:
        yield f"{place.name} cannot be read ({error.strerror})"
        return
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(folder).as_posix()
        shown = name if name.isprintable() else ascii(name)
        if entry.is_symlink():
            yield f"{shown} is a symbolic link"
        elif entry.is_dir():
            yield from _strange(folder, path, listed)
        elif name not in listed:
            yield f"{shown} is not listed"
