"""Pictures and charts as files."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from weights.parameters import parameter
from zoo.common.errors import BadRequest, MissingLibrary
from zoo.common.staging import check_free, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from PIL.Image import Image

PICTURE_SUFFIXES = (".png", ".jpg", ".webp")


def check_place(option: str, file: Path, replace: bool | None = None) -> None:
    """Raise a `ZooError` if a file name has no suffix of a picture or the file exists.

    `replace` allows a file that exists; it is None where a command has no --force.
    """
    if file.suffix.lower() not in PICTURE_SUFFIXES:
        raise BadRequest(
            f"{option} {file} is no picture: name a {', '.join(PICTURE_SUFFIXES)} file."
        )
    check_free(file, bool(replace), "name another file" if replace is None else "")


def check_matplotlib(feature: str) -> None:
    """Raise `MissingLibrary` if matplotlib, which this feature needs, is not installed."""
    if find_spec("matplotlib") is None:
        raise MissingLibrary(
            f"{feature} needs matplotlib, which is not installed: run `pip install matplotlib`."
        )


def check_plot(file: Path | None) -> None:
    """Raise a `ZooError` if `--plot` names a file that cannot be written or drawn."""
    if file is not None:
        check_place(parameter("plot"), file)
        check_matplotlib(parameter("plot"))


def save_picture(picture: Image, file: Path) -> None:
    """Write a picture, complete or not at all. **Raises** `BadOutput`."""
    with replacing(file) as path:
        picture.save(path)


def save_chart(chart: Figure, file: Path) -> None:
    """Write a matplotlib figure, complete or not at all. **Raises** `BadOutput`."""
    with replacing(file) as path:
        chart.savefig(path)
