"""Ranges of versions, written as ``<1.32`` or ``>=1.31,<2``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from converter.errors import SpecError

Release: TypeAlias = tuple[int, ...]
"""A release without trailing zeros, so that an added zero gives the next larger release."""

_PART = re.compile(r"(>=|<=|==|>|<)(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Versions:
    """Range of releases from ``low``, included, to ``high``, excluded; None stands for no upper
    limit."""

    low: Release = ()
    high: Release | None = None

    def __and__(self, other: Versions) -> Versions:
        """Return the releases that are in both ranges."""
        highs = [high for high in (self.high, other.high) if high is not None]
        return Versions(max(self.low, other.low), min(highs, default=None))

    def __bool__(self) -> bool:
        """Return True if the range has any release."""
        return self.high is None or self.low < self.high

    def __contains__(self, version: str) -> bool:
        """Return True if a release, such as ``1.31``, is in the range.

        Raises:
            SpecError: the text is not a release.
        """
        return bool(self & parse_versions(f"=={version}"))


ALL = Versions()


def parse_versions(text: str) -> Versions:
    """Return the range of releases that a text like ``>=1.31,<2`` describes; an empty text allows
    all.

    Raises:
        SpecError: a part of the text is not a comparison with a release.
    """
    allowed = ALL
    for part in filter(None, text.replace(" ", "").split(",")):
        match = _PART.fullmatch(part)
        if match is None:
            raise SpecError(f"versions are written like '>=1.31,<2'; received {text!r}")
        sign, numbers = match[1], re.sub(r"(\.0+)+$", "", match[2])
        release = tuple(map(int, numbers.split(".")))
        successor = (*release, 0)
        low = {">=": release, ">": successor, "==": release}.get(sign, ())
        high = {"<": release, "<=": successor, "==": successor}.get(sign)
        allowed &= Versions(low, high)
    return allowed
