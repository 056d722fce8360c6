"""Values of options as people write them, read from text."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zoo.errors import BadRequest

if TYPE_CHECKING:
    from zoo.export.request import Size


def read_size(text: str | None) -> Size:
    """(height, width) from `224` or `256x384`, or `dynamic`. **Raises** `BadRequest`."""
    return "dynamic" if text == "dynamic" else read_sides(text, ", or `dynamic`")


def read_sides(text: str | None, otherwise: str = "") -> tuple[int, int] | None:
    """(height, width) from `224` or `256x384`. **Raises** `BadRequest`."""
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,6})(?:x(\d{1,6}))?", text, re.ASCII)
    sides = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
    if 0 in sides:
        raise BadRequest(
            f"--size {text} is no size: write one such as 224, or 256x384 (HxW){otherwise}."
        )
    return sides


def read_batch(text: str) -> int | None:
    """A positive number, or None from `dynamic`. **Raises** `BadRequest`."""
    if text == "dynamic":
        return None
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) == 0:
        raise BadRequest(f"--batch {text} is no batch size: write `dynamic` or a positive number.")
    return int(text)


def read_layers(text: str | None) -> tuple[int, ...] | str:
    """Numbers from `3,6,9,12`; `last4` as it is. **Raises** `BadRequest`."""
    if text is None:
        return ()
    if re.fullmatch(r"last\d+", text, re.ASCII):
        return text
    if not re.fullmatch(r"\d+(,\d+)*", text, re.ASCII):
        raise BadRequest(f"--layers {text} names no layers: write 3,6,9,12 or last4.")
    return tuple(map(int, text.split(",")))
