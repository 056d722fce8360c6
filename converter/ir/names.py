"""Names that are all different."""

import itertools
from collections.abc import Iterable


class Names:
    """The names that are taken already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, wanted: str) -> str:
        """``wanted``, or ``wanted_1``, ``wanted_2`` … where others have it."""
        numbers = itertools.count(1)
        name = wanted
        while name in self._taken:
            name = f"{wanted}_{next(numbers)}"
        self._taken.add(name)
        return name
