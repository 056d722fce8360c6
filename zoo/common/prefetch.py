"""Do work ahead of time, in a thread."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")


@contextmanager
def prefetching(tasks: Iterable[Callable[[], Result]]) -> Generator[Callable[[], list[Result]]]:
    """Have a thread do tasks one after the other; what this gives waits for their results.

    A block that ends before that leaves out those that have not begun. What tasks hold is let go of
    when they are done.
    """
    with ThreadPoolExecutor(1) as thread:
        futures = [thread.submit(task) for task in tasks]
        del tasks
        try:
            yield lambda: [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
