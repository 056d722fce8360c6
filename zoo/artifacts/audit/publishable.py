"""Is a folder just what was built and verified, and nothing else?"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from weights.progress import Progress
from zoo.errors import BadFile
from zoo.manifest.read import read_folder
from zoo.manifest.schema import MANIFEST, Manifest

AGAIN = "build the folder again"


def check_folder(folder: Path, progress: Progress) -> Manifest:
    """Refuse a folder that is not just what was built and verified. **Raises** `BadFile`."""
    manifest = read_folder(folder)
    if not manifest.complete:
        raise BadFile(f"{folder} is not complete: run `zoo build` to its end.")
    for label, variant in manifest.variants.items():
        if not variant.passed:
            raise BadFile(f"variant {label} of {folder} failed its verification: {AGAIN}.")
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise BadFile(f"{path} is a symbolic link: put the file itself there.")
        if path.is_file() and name not in manifest.listed and name != MANIFEST:
            raise BadFile(f"{path} is not in the manifest: move it elsewhere, or {AGAIN}.")
    progress.stage(f"checking {folder}", sum(file.bytes for file in manifest.files))
    for file in manifest.files:
        if not (folder / file.name).is_file():
            raise BadFile(
                f"{folder / file.name} is missing: {AGAIN}, or `zoo pull --variant all` it."
            )
        if not file.is_at(folder, progress.step):
            raise BadFile(f"{folder / file.name} has changed since it was built: {AGAIN}.")
    return manifest


def _walk(folder: Path) -> Iterator[Path]:
    """Everything in a folder that is not hidden."""
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in (*folders, *files):
            if not name.startswith("."):
                yield Path(place, name)
