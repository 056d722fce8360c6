"""The files of a folder: all that are listed, as they are listed, and no others."""

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from weights.files import digest_of
from weights.opening import State, open_inside
from weights.progress import Progress
from zoo.artifacts.findings import Finding
from zoo.artifacts.read import read_folder_manifest
from zoo.artifacts.schema import MANIFEST, File, Manifest
from zoo.common.errors import BadFile
from zoo.common.staging import links

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
