"""What a search is asked, and what it finds."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from zoo.images.pictures import Picture

COUNT = 10
"""Rows that are found unless another number is asked for."""

MOST_ROWS = 10_000
"""Rows that may be asked for."""


class FoundRow(NamedTuple):
    """A row of a dataset: its key, the cosine of its vector with what was asked for, the size of
    its picture in pixels (None where the dataset does not say), and its place, counted from 0."""

    key: str
    cosine: float
    width: int | None
    height: int | None
    row: int


class Asked(NamedTuple):
    """What rows are compared with: a picture, a text, or the key of a row. One of them is given."""

    picture: Picture | None = None
    text: str | None = None
    key: str | None = None
