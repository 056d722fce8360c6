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

from weights.parameters import current_option_names, parameter, use_option_names
from weights.progress import Quiet
from zoo.common.processes import fresh, run_tasks, workers
from zoo.common.staging import stop
from zoo.export.assemble.folder import build_folder
from zoo.export.bulk import attempt
from zoo.export.exporter import Outcome
from zoo.export.request import Plan
from zoo.export.resources import FOLDER_COPIES, memory

BUILD_TRIES = 3
"""How often a build is started whose process dies."""

ReportProgress = Callable[[str, str], None]
"""Is told the name of a model, and what is going on there."""


class PlanProgress(Quiet):
    """Progress of one plan, as words."""

    def __init__(self, plan: Plan, tell: ReportProgress):
        self.model, self.told = plan.model.name, tell

    def stage(self, text: str, total: int | None = None) -> None:
        self.told(self.model, text)


def start(plan: Plan, tell: ReportProgress, options: Mapping[str, str]) -> Outcome:
    """Build a folder; what is wrong with the request is part of the outcome, in which parameters
    are called as these options."""
    with use_option_names(options):
        return attempt(plan.model.name, partial(build_folder, plan, PlanProgress(plan, tell)))


def memory_needed(plan: Plan) -> int:
    """Bytes of memory that a build needs at most, about."""
    return memory(plan.model, FOLDER_COPIES)


@dataclass(frozen=True)
class Pool:
    """Where builds run: how to open it, what its workers are given, what says that one was lost."""

    open: Callable[[], AbstractContextManager[Executor]]
    told: ReportProgress
    lost: tuple[type[Exception], ...]


def run_builds(
    plans: Sequence[Plan],
    pool: Pool,
    budget: float,
    finished: Callable[[str, Outcome], None],
) -> list[Outcome]:
    """Build all folders, as many at once as there are workers and bytes of memory for.

    What is larger than the budget is built alone. A build whose worker dies is started again.
    """
    outcomes: dict[str, Outcome] = {}
    named = {plan.model.name: plan for plan in plans}
    error = (
        f"the process that built it died {BUILD_TRIES} times, perhaps for want of memory: lower "
        f"{parameter('jobs')}."
    )

    def submit(executor: Executor, model: str) -> Future[Outcome]:
        return executor.submit(start, named[model], pool.told, current_option_names())

    def fits(model: str, running: Collection[str]) -> bool:
        needed = (memory_needed(named[each]) for each in (model, *running))
        return not running or sum(needed) <= budget

    def settle(model: str, outcome: Outcome | None) -> None:
        outcomes[model] = outcome or Outcome(model, error=error)
        finished(model, outcomes[model])

    run_tasks([*named], pool.open, submit, fits, settle, pool.lost, BUILD_TRIES)
    return [outcomes[model] for model in named]


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


def _send(queue: Queue[tuple[str, str] | None], model: str, text: str) -> None:
    queue.put((model, text))


def _listen(queue: Queue[tuple[str, str] | None], tell: ReportProgress) -> None:
    while (item := queue.get()) is not None:
        tell(*item)


def _prepare() -> None:
    """A worker that is told to stop removes what it has staged."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # its parent decides
    signal.signal(signal.SIGTERM, stop)
