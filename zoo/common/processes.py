"""Processes beside this one: the only place that starts any.

A process of Python's looks for modules in the current folder first, where a `multiprocessing.py`
that somebody downloaded would be executed. Those that are started here do not look there.
"""

import multiprocessing
import os
import subprocess
from collections import Counter, deque
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import islice
from multiprocessing.context import SpawnContext
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from weights.overlapping import Overlapping

Opened = TypeVar("Opened")
Task = TypeVar("Task")
Done = TypeVar("Done")

SAFE_PATH = "PYTHONSAFEPATH"
"""The variable by which Python leaves the current folder out, as with its flag `-P`."""


def _leave_out() -> Callable[[], None]:
    before = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    return partial(_restore, before)


def _restore(before: str | None) -> None:
    if before is None:
        del os.environ[SAFE_PATH]
    else:
        os.environ[SAFE_PATH] = before


WITHOUT_FOLDER = Overlapping(_leave_out)
"""Leaves the current folder out for processes that start while a block runs."""


@contextmanager
def fresh() -> Generator[SpawnContext]:
    """Start processes afresh while the block runs, without the current folder on their path."""
    with WITHOUT_FOLDER:
        yield multiprocessing.get_context("spawn")


def workers(
    context: SpawnContext,
    count: int,
    initializer: Callable[[], object] | None = None,
    max_tasks_per_child: int | None = None,
) -> ProcessPoolExecutor:
    """Pool of so many processes, to be used within the block of `fresh` that gave the context."""
    return ProcessPoolExecutor(count, context, initializer, max_tasks_per_child=max_tasks_per_child)


def run_tasks(
    tasks: Iterable[Task],
    open: Callable[[], AbstractContextManager[Opened]],
    submit: Callable[[Opened, Task], Future[Done]],
    fits: Callable[[Task, Collection[Task]], bool],
    settle: Callable[[Task, Done | None], None],
    lost: tuple[type[Exception], ...],
    tries: int,
) -> None:
    """Have all tasks done, as many at once as fit beside those that run.

    One whose worker dies, which `lost` are raised for, is tried again, so many times in all; where
    nobody takes tasks any more, workers are opened anew. `settle` is given each task with what
    became of it, None where its workers died.
    """
    left, waiting, died = iter(tasks), deque[Task](), Counter[Task]()
    waiting.extend(islice(left, 1))
    while waiting:
        with open() as opened:
            running, done = dict[Future[Done], Task](), SimpleQueue[Future[Done]]()
            while running or waiting:
                try:
                    while done.empty() and waiting and fits(waiting[0], running.values()):
                        future = submit(opened, waiting[0])
                        running[future] = waiting.popleft()
                        future.add_done_callback(done.put)
                        waiting.extend(islice(left, not waiting))
                except lost:
                    if not running:
                        break
                future = done.get()
                task, result = running.pop(future), None
                try:
                    result = future.result()
                except lost:
                    died[task] += 1
                    if died[task] < tries:
                        waiting.append(task)
                        continue
                settle(task, result)


def run_program(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of somebody else's in a folder, to its end; what it printed is captured."""
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def terminate_workers() -> None:
    """Tell those that are still running to stop."""
    for child in multiprocessing.active_children():
        child.terminate()
