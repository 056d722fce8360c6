"""Names that are all different."""

import itertools
from collections.abc import Iterable


class Names:
    """The names that are taken already."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def take(self, preferred: str) -> str:
        """``preferred``, or ``preferred_1``, ``preferred_2`` … where others have it."""
        numbers = itertools.count(1)
        name = preferred
        while name in self._taken:
            name = f"{preferred}_{next(numbers)}"
        self._taken.add(name)
        return name
