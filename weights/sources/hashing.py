"""The digest of a checkpoint, taken while something else is done."""

from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from weights.files import Checkpoint


@contextmanager
def hashing(checkpoint: Checkpoint) -> Generator[Callable[[], str]]:
    """Have a thread compute a checkpoint's sha256; what this gives waits for it. A block that ends
    before that stops it."""
    left = Event()

    def step(_: int) -> None:
        if left.is_set():
            raise CancelledError

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(checkpoint.sha256, step)
        try:
            yield future.result
        finally:
            left.set()
