"""Settings of the whole process that are changed for a while, by blocks that may overlap."""

from collections.abc import Callable
from functools import partial
from threading import Lock
from typing import Generic, TypeVar

T = TypeVar("T")


class Overlapping(Generic[T]):
    """A setting that is another one while any block runs, and afterwards what it was before.

    ``change`` sets it and returns what it was, ``restore`` takes that. Blocks may run in several
    threads and end in any order; the last one restores.
    """

    def __init__(self, change: Callable[[], T], restore: Callable[[T], object]):
        self._change, self._restore = change, restore
        self._lock, self._blocks = Lock(), 0
        self._undo: Callable[[], object] = lambda: None

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                self._undo = partial(self._restore, self._change())
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                self._undo()
