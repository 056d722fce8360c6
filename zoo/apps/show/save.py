"""Write pictures and charts to files."""

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


def check_picture_path(option: str, file: Path, replace: bool | None = None) -> None:
    """Check that a path ends in .png, .jpg or .webp and that no file exists there.

    **Arguments**

    - `option`: the name of the option in messages.
    - `file`: the path.
    - `replace`: whether a file may exist at the path. None means the same as False, for a command
      without `--force`, which the message then does not mention.

    **Raises** a `ZooError`.
    """
    if file.suffix.lower() not in PICTURE_SUFFIXES:
        raise BadRequest(
            f"{option} {file} is no picture: name a {', '.join(PICTURE_SUFFIXES)} file."
        )
    check_free(file, bool(replace), "name another file" if replace is None else "")


def check_matplotlib(feature: str) -> None:
    """Check that matplotlib is installed.

    `feature` names what needs it, for the message. **Raises** `MissingLibrary`.
    """
    if find_spec("matplotlib") is None:
        raise MissingLibrary(
            f"{feature} needs matplotlib, which is not installed: run `pip install matplotlib`."
        )


def check_plot(file: Path | None) -> None:
    """Check that the file of the option `--plot` can be drawn and written.

    None means that the option was not given, and nothing is checked. **Raises** a `ZooError`.
    """
    if file is not None:
        check_picture_path(parameter("plot"), file)
        check_matplotlib(parameter("plot"))


def save_picture(picture: Image, file: Path) -> None:
    """Write a picture to a file, which appears only when it is complete.

    **Raises** `BadOutput`.
    """
    with replacing(file) as path:
        picture.save(path)


def save_chart(chart: Figure, file: Path) -> None:
    """Write a matplotlib figure to a file, which appears only when it is complete.

    **Raises** `BadOutput`.
    """
    with replacing(file) as path:
        chart.savefig(path)
