"""Settings of the whole process that are changed for a while, by blocks that may overlap."""

from collections.abc import Callable
from threading import Lock


class Overlapping:
    """A setting that is another one while any block runs, and afterwards what it was before.

    ``change`` sets it and returns what restores it. Blocks may run in several threads and end in
    any order; the last one restores.
    """

    def __init__(self, change: Callable[[], Callable[[], object]]):
        self._change = change
        self._lock, self._blocks = Lock(), 0
        self._restore: Callable[[], object] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                self._restore = self._change()
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._restore()
