"""Ranges of versions, as ``<1.32`` and ``>=1.31,<2`` write them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

from converter.errors import SpecError

Release: TypeAlias = tuple[int, ...]
"""Without zeros at its end, so that a zero more makes what comes right after it."""

_PART = re.compile(r"(>=|<=|==|>|<)(\d+(?:\.\d+)*)")


@dataclass(frozen=True)
class Versions:
    """The releases from ``low`` on that come before ``high``, if that is there."""

    low: Release = ()
    high: Release | None = None

    def __and__(self, other: Versions) -> Versions:
        highs = [high for high in (self.high, other.high) if high is not None]
        return Versions(max(self.low, other.low), min(highs, default=None))

    def __bool__(self) -> bool:
        """Whether there is any."""
        return self.high is None or self.low < self.high

    def __contains__(self, version: str) -> bool:
        return bool(self & versions(f"=={version}"))


ALL = Versions()


def versions(text: str) -> Versions:
    """The versions that a specifier allows; all of them, if it is empty.

    **Raises** `SpecError` if it is none.
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
