"""Unique names."""

import itertools
from collections.abc import Iterable


class Names:
    """A set of names that are in use, from which unique new names are derived."""

    def __init__(self, used: Iterable[str] = ()) -> None:
        self._used = set(used)

    def take(self, preferred: str) -> str:
        """Reserve and return ``preferred``, or ``preferred_1``, ``preferred_2`` … if it is in
        use."""
        numbers = itertools.count(1)
        name = preferred
        while name in self._used:
            name = f"{preferred}_{next(numbers)}"
        self._used.add(name)
        return name
