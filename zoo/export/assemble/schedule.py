"""Build many folders in parallel processes, within a budget of memory."""

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
from zoo.export.bulk import run_catching_errors
from zoo.export.exporter import Outcome
from zoo.export.request import Plan
from zoo.export.resources import FOLDER_COPIES, estimate_memory_bytes

MAX_BUILD_ATTEMPTS = 3
"""Number of times that a build is started whose process dies."""

ReportProgress = Callable[[str, str], None]
"""Function that is called with the name of a model and its current stage."""


class PlanProgress(Quiet):
    """Progress of one plan, which reports the stages only."""

    def __init__(self, plan: Plan, tell: ReportProgress):
        self.model, self.report = plan.model.name, tell

    def stage(self, text: str, total: int | None = None) -> None:
        self.report(self.model, text)


def build_in_worker(plan: Plan, report: ReportProgress, options: Mapping[str, str]) -> Outcome:
    """Build a folder and return the outcome. A refused request is part of the outcome, with the
    parameters named as in `options`."""
    with use_option_names(options):
        return run_catching_errors(
            plan.model.name, partial(build_folder, plan, PlanProgress(plan, report))
        )


def estimate_build_memory(plan: Plan) -> int:
    """Return the approximate largest memory of a build in bytes."""
    return estimate_memory_bytes(plan.model, FOLDER_COPIES)


@dataclass(frozen=True)
class Pool:
    """Workers of builds: the function that opens them, the function that reports progress, and the
    exceptions that mean that a worker died."""

    open: Callable[[], AbstractContextManager[Executor]]
    report: ReportProgress
    lost: tuple[type[Exception], ...]


def run_builds(
    plans: Sequence[Plan],
    pool: Pool,
    budget: float,
    finished: Callable[[str, Outcome], None],
) -> list[Outcome]:
    """Build all folders and return their outcomes. As many run at once as there are workers and
    memory for.

    A build that needs more memory than the budget runs alone. A build whose worker dies is started
    again.
    """
    outcomes: dict[str, Outcome] = {}
    plans_by_model = {plan.model.name: plan for plan in plans}
    error = (
        f"the process that built it died {MAX_BUILD_ATTEMPTS} times, perhaps for want of memory: "
        f"lower {parameter('jobs')}."
    )

    def submit(executor: Executor, model: str) -> Future[Outcome]:
        return executor.submit(
            build_in_worker, plans_by_model[model], pool.report, current_option_names()
        )

    def has_memory(model: str, running: Collection[str]) -> bool:
        needed = (estimate_build_memory(plans_by_model[name]) for name in (model, *running))
        return not running or sum(needed) <= budget

    def record_outcome(model: str, outcome: Outcome | None) -> None:
        outcomes[model] = outcome or Outcome(model, error=error)
        finished(model, outcomes[model])

    run_tasks(
        [*plans_by_model],
        pool.open,
        submit,
        has_memory,
        record_outcome,
        pool.lost,
        MAX_BUILD_ATTEMPTS,
    )
    return [outcomes[model] for model in plans_by_model]


class InProcessExecutor(Executor):
    """Executor that runs each task in this process as soon as it is submitted."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def process_pool(jobs: int, tell: ReportProgress) -> Generator[Pool]:
    """Yield a pool of processes. Each build gets a new process, so that all its memory is freed
    afterwards."""
    with fresh() as context, context.Manager() as manager:
        queue = manager.Queue()
        listener = threading.Thread(target=_report_stages, args=(queue, tell), daemon=True)
        listener.start()
        open = partial(workers, context, jobs, _prepare_worker, max_tasks_per_child=1)
        yield Pool(open, partial(_send_stage, queue), lost=(BrokenExecutor,))
        queue.put(None)
        listener.join()


def _send_stage(queue: Queue[tuple[str, str] | None], model: str, text: str) -> None:
    """Put a stage into the queue of the parent process."""
    queue.put((model, text))


def _report_stages(queue: Queue[tuple[str, str] | None], tell: ReportProgress) -> None:
    """Report the stages in a queue until it contains None."""
    while (item := queue.get()) is not None:
        tell(*item)


def _prepare_worker() -> None:
    """Set the signal handlers of a worker: if it is terminated, it removes its staged files."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process terminates its workers
    signal.signal(signal.SIGTERM, stop)
