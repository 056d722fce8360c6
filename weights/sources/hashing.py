"""The digest of a checkpoint, taken while something else is done."""

import sys
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event, Lock

from weights.files import Checkpoint

INTERVAL = 0.0005
"""Seconds that a thread may keep the interpreter from others. One that hashes needs it for a moment
between two pieces. With Python's usual 5 ms it would wait there as long as it takes to hash one."""


class Eager:
    """Has threads give way to each other soon, while anybody asks for that; blocks may overlap."""

    def __init__(self) -> None:
        self._lock, self._blocks, self._usual = Lock(), 0, 0.0

    def __enter__(self) -> None:
        with self._lock:
            if not self._blocks:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(INTERVAL)
            self._blocks += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._blocks -= 1
            if not self._blocks:
                sys.setswitchinterval(self._usual)


EAGER = Eager()
"""The one of this process, as its interval is."""


@contextmanager
def hashing(checkpoint: Checkpoint) -> Generator[Callable[[], str]]:
    """Have a thread compute a checkpoint's sha256; what this gives waits for it.

    A block that ends before that stops it.
    """
    left = Event()

    def step(_: int) -> None:
        if left.is_set():
            raise CancelledError

    with EAGER, ThreadPoolExecutor(1) as thread:
        future = thread.submit(checkpoint.sha256, step)
        try:
            yield future.result
        finally:
            left.set()
