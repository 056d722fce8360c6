"""Check that a folder has exactly the files of its manifest, with their digests."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weights.files import hash_open_file
from weights.opening import State, open_inside
from weights.progress import Progress
from zoo.artifacts.measured import Verification
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile
from zoo.common.staging import find_links
from zoo.images.pixel_values import Size


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    - `check`: the name of the check.
    - `passed`: whether the check passed.
    - `detail`: what was found and what was expected, in words.
    """

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Residuals:
    """Absolute differences of a file's outputs from the expected outputs, for one image.

    - `grid`: the numbers of rows and columns of patches in the image.
    - `outputs`: the differences by output name.
    """

    grid: Size
    outputs: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class NumbersCheck:
    """The result of comparing the outputs of a file with expected outputs.

    - `finding`: the result in words.
    - `verification`: the comparisons, or None if the file did not run.
    - `residuals`: a function that computes the differences of single numbers, or None if that is
      not possible.
    """

    finding: Finding
    verification: Verification | None = None
    residuals: Callable[[], Residuals] | None = None


def compute_residuals(
    grid: Size, outputs: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> Residuals:
    """Return the absolute differences between outputs and expected outputs, in float32.

    `grid` is (rows, columns) of patches. Outputs without an expected output are left out. Every
    expected output must be in `outputs`, with the same shape.
    """
    pairs = {name: (np.asarray(outputs[name], np.float32), expected[name]) for name in expected}
    return Residuals(
        grid, {name: abs(actual - wanted_values) for name, (actual, wanted_values) in pairs.items()}
    )


@dataclass(frozen=True)
class FileReport:
    """The results of all checks of one ONNX file.

    Arguments:
        name: name of the variant.
        file: name of the file.
        passed: whether all checks passed.
        findings: the results.
        verification: comparisons of the outputs, or None if the file did not run.
        elsewhere: number of nodes that run on another provider than the chosen one, by provider and
            operator. It is empty if there are none or ONNX Runtime cannot record them, and None if
            the file did not load.
        residuals: function that computes the differences of single numbers, or None.
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
    """The results of all checks of a folder, or of one file in it.

    - `folder`, `model`, `provider`: what was checked, and the provider of ONNX Runtime.
    - `passed`: whether all checks passed.
    - `findings`: the results for the folder.
    - `variants`: the results for each ONNX file.
    - `absent`: the names of the variants whose files do not exist.
    """

    folder: str
    model: str
    provider: str
    passed: bool
    findings: Sequence[Finding]
    variants: Sequence[FileReport]
    absent: Sequence[str] = ()


REBUILD_ADVICE = "build the folder again, or `zoo pull --variant all` it"


def check_folder(folder: Path, progress: Progress) -> Manifest:
    """Check that a folder holds exactly the files that were built and verified.

    Return the manifest of the folder. **Raises** `BadFile` if the build is not complete, a variant
    failed its verification, a file is missing or changed, or there are other files.
    """
    manifest = read_folder_manifest(folder)
    if not manifest.complete:
        raise BadFile(f"{folder} is not complete: run `zoo build` to its end.")
    for label, variant in manifest.variants.items():
        if not variant.passed:
            raise BadFile(f"variant {label} of {folder} failed its verification: {REBUILD_ADVICE}.")
    for finding in (
        check_unlisted_files(folder, manifest),
        check_listed_files(folder, manifest.files, progress),
    ):
        if not finding.passed:
            raise BadFile(
                f"{folder} is not what its manifest says ({finding.detail}): {REBUILD_ADVICE}."
            )
    return manifest


def find_present_variants(folder: Path, manifest: Manifest) -> list[str]:
    """Return the names of the variants that have at least one file in a folder."""
    return [
        name
        for name, variant in manifest.variants.items()
        if any(os.path.lexists(folder / file) for file in variant.files)
    ]


def check_listed_files(folder: Path, items: Collection[File], progress: Progress) -> Finding:
    """Check that listed files exist in a folder and have the listed sizes and digests.

    Return the result, with the faults in words.
    """
    return summarize_files(items, find_wrong_files(folder, items, progress))


def find_wrong_files(folder: Path, items: Collection[File], progress: Progress) -> dict[str, str]:
    """Return how files in a folder differ from their listing, as a sentence by file name.

    Sizes and digests are compared. A file that is missing, cannot be read or is reached through a
    symbolic link differs too. The result is empty if all files are as listed.
    """
    progress.stage("checking digests", sum(max(item.bytes, 0) for item in items))
    return {item.name: line for item in items if (line := _describe_fault(folder, item, progress))}


def summarize_files(items: Collection[File], faults: Mapping[str, str]) -> Finding:
    """Return the result of a check of files.

    `items` are the listed files. `faults` are the differences that were found, by file name. The
    check passed if there are none.
    """
    return Finding("files", not faults, "; ".join(faults.values()) or f"{len(items)} as listed")


def _describe_fault(folder: Path, item: File, progress: Progress) -> str | None:
    """Return how a file in a folder differs from its listing, in words.

    Return None if it has the listed size and digest. A file that is missing, cannot be read or is
    reached through a symbolic link differs.
    """
    try:
        with open_inside(folder, item.name) as file:
            size = State.of(file).size
            if size != item.bytes:
                return f"{item.name} has {size} bytes instead of {item.bytes}"
            if hash_open_file(file, progress.step) != item.sha256:
                return f"{item.name} has another sha256"
    except FileNotFoundError:
        return f"{item.name} is missing"
    except OSError as error:
        if find_links(folder, item.name):
            return f"{item.name} is reached through a symbolic link"
        return f"{item.name} cannot be read ({error.strerror})"
    return None


def check_unlisted_files(folder: Path, manifest: Manifest) -> Finding:
    """Check that a folder has neither symbolic links nor files that the manifest does not list.

    Subfolders are searched too. Hidden files and folders are ignored. Return the result, with at
    most ten faults in words.
    """
    names = {MANIFEST, *manifest.files_by_name}
    faults = sorted(_find_unlisted(folder, folder, names))
    first_faults = faults[:10] + [f"{len(faults) - 10} more"] * (len(faults) > 10)
    return Finding(
        "nothing else", not faults, "; ".join(first_faults) or "no other files, no links"
    )


def _find_unlisted(folder: Path, subfolder: Path, names: Collection[str]) -> Iterator[str]:
    """Yield a sentence for each unlisted file, symbolic link and unreadable folder in `subfolder`.

    `names` are the listed files, relative to `folder`. Hidden files and folders are skipped.
    Folders in `subfolder` are searched too.
    """
    try:
        entries = [entry for entry in os.scandir(subfolder) if not entry.name.startswith(".")]
    except OSError as error:
        yield f"{subfolder.name} cannot be read ({error.strerror})"
        return
    for entry in entries:
        path = Path(entry.path)
        name = path.relative_to(folder).as_posix()
        printable_name = name if name.isprintable() else ascii(name)
        if entry.is_symlink():
            yield f"{printable_name} is a symbolic link"
        elif entry.is_dir():
            yield from _find_unlisted(folder, path, names)
        elif name not in names:
            yield f"{printable_name} is not listed"
