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

from weights.shared_setting import SharedSetting

Opened = TypeVar("Opened")
Task = TypeVar("Task")
TaskResult = TypeVar("TaskResult")

SAFE_PATH = "PYTHONSAFEPATH"
"""The environment variable that keeps the current folder off the path of Python, like its flag
`-P`."""


def _exclude_current_folder() -> Callable[[], None]:
    """Set `PYTHONSAFEPATH` in the environment of this process and its future child processes.

    Return a function that restores the previous value.
    """
    previous_value = os.environ.get(SAFE_PATH)
    os.environ[SAFE_PATH] = "1"
    return partial(_restore_variable, previous_value)


def _restore_variable(previous_value: str | None) -> None:
    """Set `PYTHONSAFEPATH` to its previous value, or remove it if the value is None."""
    if previous_value is None:
        del os.environ[SAFE_PATH]
    else:
        os.environ[SAFE_PATH] = previous_value


WITHOUT_CURRENT_FOLDER = SharedSetting(_exclude_current_folder)
"""A context that keeps the current folder off the module path of processes started in its block.

Blocks of several threads may overlap.
"""


@contextmanager
def isolated_context() -> Generator[SpawnContext]:
    """Yield a context for processes that do not import modules from the current folder.

    The processes are spawned. They must be started before the `with` block ends.
    """
    with WITHOUT_CURRENT_FOLDER:
        yield multiprocessing.get_context("spawn")


def make_worker_pool(
    context: SpawnContext,
    count: int,
    initializer: Callable[[], object] | None = None,
    max_tasks_per_child: int | None = None,
) -> ProcessPoolExecutor:
    """Return a pool of `count` worker processes, for use within the `with` block of
    `isolated_context`.

    **Arguments**

    - `context`: the context that `isolated_context` yields.
    - `initializer`: a function that each worker calls once when it starts.
    - `max_tasks_per_child`: the number of tasks after which a worker is replaced by a new one. None
      means that workers are not replaced.
    """
    return ProcessPoolExecutor(count, context, initializer, max_tasks_per_child=max_tasks_per_child)


def run_tasks(
    tasks: Iterable[Task],
    open_workers: Callable[[], AbstractContextManager[Opened]],
    submit: Callable[[Opened, Task], Future[TaskResult]],
    can_start: Callable[[Task, Collection[Task]], bool],
    handle_result: Callable[[Task, TaskResult | None], None],
    worker_errors: tuple[type[Exception], ...],
    max_attempts: int,
) -> None:
    """Run all tasks in worker processes and pass each result to `handle_result`.

    Tasks start in order, as soon as `can_start` allows. A task that is tried again starts after the
    task that waits. Results are handled in this process, in the order in which the tasks end.

    **Arguments**

    - `tasks`: the tasks, which must be hashable. The next one is read only when the previous one
      has started.
    - `open_workers`: returns a context manager that starts the workers. It is called again if the
      workers no longer accept tasks.
    - `submit`: starts a task in the opened workers and returns its future.
    - `can_start`: returns whether a task can start while the given tasks are running. It must
      return True if none are running.
    - `handle_result`: is called with each task and its result. The result is None if the worker
      died in every try.
    - `worker_errors`: the exceptions that mean that a worker died. The task is then tried again.
    - `max_attempts`: the maximum number of times that a task is tried.

    Any other exception of a task is raised, after the context manager of the workers has ended. The
    remaining tasks are not started.
    """
    remaining, waiting, failures = iter(tasks), deque[Task](), Counter[Task]()
    waiting.extend(islice(remaining, 1))
    while waiting:
        with open_workers() as opened:
            running, finished = dict[Future[TaskResult], Task](), SimpleQueue[Future[TaskResult]]()
            while running or waiting:
                try:
                    while finished.empty() and waiting and can_start(waiting[0], running.values()):
                        future = submit(opened, waiting[0])
                        running[future] = waiting.popleft()
                        future.add_done_callback(finished.put)
                        waiting.extend(islice(remaining, not waiting))
                except worker_errors:
                    if not running:
                        break
                future = finished.get()
                task, result = running.pop(future), None
                try:
                    result = future.result()
                except worker_errors:
                    failures[task] += 1
                    if failures[task] < max_attempts:
                        waiting.append(task)
                        continue
                handle_result(task, result)


def run_program(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run another program with `folder` as its current folder, and wait until it ends.

    Return its exit code, stdout and stderr. A code other than 0 raises no exception.
    """
    return subprocess.run(command, capture_output=True, text=True, cwd=folder)


def terminate_workers() -> None:
    """Terminate the running child processes of this process, without waiting for them to end."""
    for child in multiprocessing.active_children():
        child.terminate()
