"""Is a folder just what was built and verified, and nothing else?"""

from __future__ import annotations

from pathlib import Path

from weights.progress import Progress
from zoo.artifacts.audit.files import check_listed, check_others
from zoo.errors import BadFile
from zoo.manifest.read import read_folder
from zoo.manifest.schema import Manifest

AGAIN = "build the folder again, or `zoo pull --variant all` it"


def check_folder(folder: Path, progress: Progress) -> Manifest:
    """Refuse a folder that is not just what was built and verified. **Raises** `BadFile`."""
    manifest = read_folder(folder)
    if not manifest.complete:
        raise BadFile(f"{folder} is not complete: run `zoo build` to its end.")
    for label, variant in manifest.variants.items():
        if not variant.passed:
            raise BadFile(f"variant {label} of {folder} failed its verification: {AGAIN}.")
    for found in (check_others(folder, manifest), check_listed(folder, manifest.files, progress)):
        if not found.passed:
            raise BadFile(f"{folder} is not what its manifest says ({found.detail}): {AGAIN}.")
    return manifest
