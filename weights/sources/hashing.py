"""The digest of a checkpoint, taken while something else is done."""

import sys
from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from threading import Event

from weights.files import Checkpoint
from weights.overlapping import Overlapping

INTERVAL = 0.0005
"""Seconds that a thread may keep the interpreter from others. One that hashes needs it for a moment
between two pieces. With Python's usual 5 ms it would wait there as long as it takes to hash one."""


def _shorten() -> Callable[[], None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(INTERVAL)
    return partial(sys.setswitchinterval, before)


EAGER = Overlapping(_shorten)  # has threads give way to each other soon


@contextmanager
def hashing(checkpoint: Checkpoint) -> Generator[Callable[[], str]]:
    """Have a thread compute a checkpoint's sha256; what this gives waits for it. A block that ends
    before that stops it."""
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
