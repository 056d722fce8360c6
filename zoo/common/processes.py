"""Start child processes. Only this module of the zoo starts processes.

By default Python looks for modules in the current folder first. A file `multiprocessing.py` that
was downloaded to this folder would be executed. The processes that are started here do not look
there.
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
    """Yield a context that spawns processes which do not look for modules in the current folder.

    Use it within the block.
    """
    with WITHOUT_FOLDER:
        yield multiprocessing.get_context("spawn")


def workers(
    context: SpawnContext,
    count: int,
    initializer: Callable[[], object] | None = None,
    max_tasks_per_child: int | None = None,
) -> ProcessPoolExecutor:
    """Return a pool of `count` processes. Use it within the block of `fresh`."""
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
    """Run all tasks in workers and pass each result to `settle`.

    **Arguments**

    - `open`: opens the workers. It is called again if the workers no longer accept tasks.
    - `submit`: starts a task in the workers and returns its future.
    - `fits`: returns whether a task can run at the same time as the running tasks.
    - `settle`: is called with each task and its result, or None if the worker died each time.
    - `lost`: the exceptions that are raised if a worker died. The task is then tried again.
    - `tries`: the maximum number of times that a task is tried.
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
