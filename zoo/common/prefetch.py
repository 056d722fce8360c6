"""Run functions ahead of time, in a thread."""

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")


@contextmanager
def prefetching(tasks: Iterable[Callable[[], Result]]) -> Generator[Callable[[], list[Result]]]:
    """Run tasks in order in one background thread while the `with` block runs.

    Yield a function that waits for the tasks and returns their results in order. If tasks failed,
    it raises the exception of the first of them. A failure does not stop the later tasks.

    When the block ends, tasks that have not been started are cancelled, and the task that is
    running is waited for. A task is not referenced after it has run, so that its data can be freed.
    """
    with ThreadPoolExecutor(1) as executor:
        futures = [executor.submit(task) for task in tasks]
        del tasks
        try:
            yield lambda: [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()
