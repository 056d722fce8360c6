"""Compute the digest of a checkpoint in the background."""

from collections.abc import Callable, Generator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from threading import Event

from weights.files import Checkpoint


@contextmanager
def hash_in_background(checkpoint: Checkpoint) -> Generator[Callable[[], str]]:
    """Compute the sha256 of a checkpoint in a thread while the block runs.

    The block gets a function that waits for the digest and returns it, or raises the error of
    `Checkpoint.sha256`. If the block ends before the digest is computed, hashing is cancelled.
    """
    cancelled = Event()

    def step(_: int) -> None:
        if cancelled.is_set():
            raise CancelledError

    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(checkpoint.sha256, step)
        try:
            yield future.result
        finally:
            cancelled.set()
