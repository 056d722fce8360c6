"""Pictures as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from zoo.common.errors import BadRequest
from zoo.common.staging import check_free, replacing

if TYPE_CHECKING:
    from PIL.Image import Image

PICTURE_SUFFIXES = (".png", ".jpg", ".webp")


def check_place(option: str, file: Path, replace: bool | None = None) -> None:
    """**Raises** a `ZooError` if a file is no picture by its name, or may not be replaced.

    `replace` is None where a command has no --force.
    """
    if file.suffix.lower() not in PICTURE_SUFFIXES:
        raise BadRequest(
            f"{option} {file} is no picture: name a {', '.join(PICTURE_SUFFIXES)} file."
        )
    check_free(file, bool(replace), "name another file" if replace is None else "")


def save_picture(picture: Image, file: Path) -> None:
    """Write a picture, complete or not at all. **Raises** `BadOutput`."""
    with replacing(file) as place:
        picture.save(place)
