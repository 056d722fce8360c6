"""Build many folders at once, in processes within a budget of memory."""

import signal
import threading
from collections.abc import Callable, Collection, Generator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from queue import Queue
from typing import Any

from weights.parameters import parameter, spelled, spellings
from weights.progress import Quiet
from zoo.checkpoints.pretrained import find_entry
from zoo.common.processes import fresh, run_tasks, workers
from zoo.common.staging import stop
from zoo.export.assemble.folder import build_folder
from zoo.export.assemble.plan import FolderPlan
from zoo.export.bulk import Outcome, attempt
from zoo.export.resources import FOLDER_COPIES, memory

BUILD_TRIES = 3
"""How often a build is started whose process dies."""

ReportProgress = Callable[[FolderPlan, str], None]
"""Is told of every plan what is going on."""


class PlanProgress(Quiet):
    """Progress of one plan, as words."""

    def __init__(self, plan: FolderPlan, tell: ReportProgress):
        self.plan, self.told = plan, tell

    def stage(self, text: str, total: int | None = None) -> None:
        self.told(self.plan, text)


def start(plan: FolderPlan, tell: ReportProgress, options: Mapping[str, str]) -> Outcome:
    """Build a folder; what is wrong with the request is part of the outcome, in which parameters
    are called as these options."""
    with spelled(options):
        return attempt(plan.model, partial(build_folder, plan, PlanProgress(plan, tell)))


def memory_needed(plan: FolderPlan) -> int:
    """Bytes of memory that a build needs at most, about."""
    return memory(find_entry(plan.model, plan.weights)[0], FOLDER_COPIES)


@dataclass(frozen=True)
class Pool:
    """Where builds run: how to open it, what its workers are given, what says that one was lost."""

    open: Callable[[], AbstractContextManager[Executor]]
    told: ReportProgress
    lost: tuple[type[Exception], ...]


def run_builds(
    plans: Sequence[FolderPlan],
    pool: Pool,
    budget: float,
    finished: Callable[[FolderPlan, Outcome], None],
) -> list[Outcome]:
    """Build all folders, as many at once as there are workers and bytes of memory for.

    What is larger than the budget is built alone. A build whose worker dies is started again.
    """
    outcomes: dict[FolderPlan, Outcome] = {}
    error = (
        f"the process that built it died {BUILD_TRIES} times, perhaps for want of memory: lower "
        f"{parameter('jobs')}."
    )

    def submit(executor: Executor, plan: FolderPlan) -> Future[Outcome]:
        return executor.submit(start, plan, pool.told, spellings())

    def fits(plan: FolderPlan, running: Collection[FolderPlan]) -> bool:
        return not running or sum(map(memory_needed, (plan, *running))) <= budget

    def settle(plan: FolderPlan, outcome: Outcome | None) -> None:
        outcomes[plan] = outcome or Outcome(plan.model, error=error)
        finished(plan, outcomes[plan])

    run_tasks(plans, pool.open, submit, fits, settle, pool.lost, BUILD_TRIES)
    return [outcomes[plan] for plan in plans]


class InProcessExecutor(Executor):
    """Runs what is submitted at once, in this process: one build after the other."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def process_pool(jobs: int, tell: ReportProgress) -> Generator[Pool]:
    """Pool of so many processes, a fresh one for each build: what a build allocates is gone after
    it."""
    with fresh() as context, context.Manager() as manager:
        queue = manager.Queue()
        listener = threading.Thread(target=_listen, args=(queue, tell), daemon=True)
        listener.start()
        open = partial(workers, context, jobs, _prepare, max_tasks_per_child=1)
        yield Pool(open, partial(_send, queue), lost=(BrokenExecutor,))
        queue.put(None)
        listener.join()


def _send(queue: Queue[tuple[FolderPlan, str] | None], plan: FolderPlan, text: str) -> None:
    queue.put((plan, text))


def _listen(queue: Queue[tuple[FolderPlan, str] | None], tell: ReportProgress) -> None:
    while (item := queue.get()) is not None:
        tell(*item)


def _prepare() -> None:
    """A worker that is told to stop removes what it has staged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent decides
    signal.signal(signal.SIGTERM, stop)
