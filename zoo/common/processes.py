"""Child processes. No other module starts any.

A Python process searches the current folder for modules first, so that a downloaded
`multiprocessing.py` there would be executed. The processes that this module starts do not search
it.
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
TaskResult = TypeVar("TaskResult")

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that keeps the current folder off the path of Python, like its flag
`-P`."""


def _exclude_current_folder() -> Callable[[], None]:
    previous_value = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    return partial(_restore_variable, previous_value)


def _restore_variable(previous_value: str | None) -> None:
    if previous_value is None:
        del os.environ[SAFE_PATH]
    else:
        os.environ[SAFE_PATH] = previous_value


WITHOUT_FOLDER = Overlapping(_exclude_current_folder)
"""Keeps the current folder off the path of processes that start while a block runs."""


@contextmanager
def fresh() -> Generator[SpawnContext]:
    """Yield a context that spawns processes without the current folder on their path, while the
    block runs."""
    with WITHOUT_FOLDER:
        yield multiprocessing.get_context("spawn")


def workers(
    context: SpawnContext,
    count: int,
    initializer: Callable[[], object] | None = None,
    max_tasks_per_child: int | None = None,
) -> ProcessPoolExecutor:
    """Return a pool of `count` processes, for use within the block of `fresh` that yielded the
    context."""
    return ProcessPoolExecutor(count, context, initializer, max_tasks_per_child=max_tasks_per_child)


def run_tasks(
    tasks: Iterable[Task],
    open: Callable[[], AbstractContextManager[Opened]],
    submit: Callable[[Opened, Task], Future[TaskResult]],
    fits: Callable[[Task, Collection[Task]], bool],
    settle: Callable[[Task, TaskResult | None], None],
    lost: tuple[type[Exception], ...],
    tries: int,
) -> None:
    """Run all tasks, as many at once as `fits` allows, and pass each result to `settle`.

    **Arguments**

    - `open`: opens the workers. It is called again when the workers no longer accept tasks.
    - `submit`: starts a task on the opened workers and returns its future.
    - `fits`: returns whether a task may run beside the tasks that are running.
    - `settle`: receives each task with its result, or with None if its worker died in every
      attempt.
    - `lost`: the exceptions that mean that a worker died. The task is tried again.
    - `tries`: the number of attempts for a task.
    """
    remaining, waiting, failures = iter(tasks), deque[Task](), Counter[Task]()
    waiting.extend(islice(remaining, 1))
    while waiting:
        with open() as opened:
            running, finished = dict[Future[TaskResult], Task](), SimpleQueue[Future[TaskResult]]()
            while running or waiting:
                try:
                    while finished.empty() and waiting and fits(waiting[0], running.values()):
                        future = submit(opened, waiting[0])
                        running[future] = waiting.popleft()
                        future.add_done_callback(finished.put)
                        waiting.extend(islice(remaining, not waiting))
                except lost:
                    if not running:
                        break
                future = finished.get()
                task, result = running.pop(future), None
                try:
                    result = future.result()
                except lost:
                    failures[task] += 1
                    if failures[task] < tries:
                        waiting.append(task)
                        continue
                settle(task, result)


def run_program(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run another program in a folder and return its result, with the output captured."""
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def terminate_workers() -> None:
    """Terminate the child processes that are still running."""
    for child in multiprocessing.active_children():
        child.terminate()
