"""What the manifest near a file says of its model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from zoo.files.staging import manifest_path
from zoo.manifest.schema import MANIFEST


@dataclass(frozen=True)
class About:
    """A model's name and the size of its images; None where nothing says so."""

    model: str | None = None
    size: tuple[int, int] | None = None


def about(file: Path) -> About:
    """From the manifest that export wrote beside the file, or build in the folder above."""
    for path in (manifest_path(file), file.absolute().parent.parent / MANIFEST):
        try:
            content: object = json.loads(path.read_bytes()) if path.is_file() else None
        except (OSError, ValueError, RecursionError):
            continue
        match content:
            case {"model": str(model), "preprocessing": {"size": [int(height), int(width)]}}:
                return About(model, (height, width))
    return About()
