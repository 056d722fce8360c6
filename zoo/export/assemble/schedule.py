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
from zoo.common.processes import isolated_context, make_worker_pool, run_tasks
from zoo.common.staging import handle_stop_signal
from zoo.export.assemble.folder import build_folder
from zoo.export.bulk import run_catching_errors
from zoo.export.exporter import Outcome
from zoo.export.request import Plan
from zoo.export.resources import FOLDER_COPIES, estimate_memory_bytes

MAX_BUILD_ATTEMPTS = 3
"""Number of times that a build is started if its process dies each time."""

ReportProgress = Callable[[str, str], None]
"""Function that is called with the name of a model and its current stage."""


class PlanProgress(Quiet):
    """Progress of the build of one plan. It passes the stages to `report`, with the name of the
    model, and ignores everything else."""

    def __init__(self, plan: Plan, report: ReportProgress):
        self.model, self.report = plan.model.name, report

    def stage(self, text: str, total: int | None = None) -> None:
        self.report(self.model, text)


def build_in_worker(plan: Plan, report: ReportProgress, options: Mapping[str, str]) -> Outcome:
    """Build the folder of a plan in a worker process, and return the outcome.

    `report` is called with the model's name and each stage. A `ZooError` or `WeightsError` becomes
    part of the outcome. Its message names parameters as in `options`, which maps their names to
    those of the command line.
    """
    with use_option_names(options):
        return run_catching_errors(
            plan.model.name, partial(build_folder, plan, PlanProgress(plan, report))
        )


def estimate_build_memory(plan: Plan) -> int:
    """Return the approximate largest memory in bytes that the build of a folder needs."""
    return estimate_memory_bytes(plan.model, FOLDER_COPIES)


@dataclass(frozen=True)
class Pool:
    """The worker processes of a run of builds.

    Arguments:
        open_workers: function that starts the workers.
        report: function for the workers to call with a model's name and its current stage.
        worker_errors: exceptions that mean that a worker died.
    """

    open_workers: Callable[[], AbstractContextManager[Executor]]
    report: ReportProgress
    worker_errors: tuple[type[Exception], ...]


def run_builds(
    plans: Sequence[Plan],
    pool: Pool,
    budget: float,
    report_outcome: Callable[[str, Outcome], None],
) -> list[Outcome]:
    """Build the folders of all plans in workers, and return their outcomes in the same order.

    As many builds run at once as there are workers and memory for. A build that needs more memory
    than the budget runs alone. A build whose worker dies is started again, up to
    `MAX_BUILD_ATTEMPTS` times in all. If its worker dies each time, its outcome has an `error`.

    **Arguments:**

    - `plans`: the folders to build, each of another model.
    - `pool`: the workers.
    - `budget`: bytes of memory for all builds that run at once.
    - `report_outcome`: function that is called with a model's name and its outcome when its build
      ends.
    """
    outcomes: dict[str, Outcome] = {}
    plans_by_model = {plan.model.name: plan for plan in plans}
    error = (
        f"the process that built it died {MAX_BUILD_ATTEMPTS} times, perhaps for want of memory: "
        f"lower {parameter('jobs')}."
    )

    def submit(executor: Executor, model: str) -> Future[Outcome]:
        """Start the build of a model in a worker."""
        return executor.submit(
            build_in_worker, plans_by_model[model], pool.report, current_option_names()
        )

    def has_memory(model: str, running: Collection[str]) -> bool:
        """Return whether the budget allows a build beside the running ones. True if none is
        running."""
        needed = (estimate_build_memory(plans_by_model[name]) for name in (model, *running))
        return not running or sum(needed) <= budget

    def record_outcome(model: str, outcome: Outcome | None) -> None:
        """Record an outcome. None means that the worker died each time."""
        outcomes[model] = outcome or Outcome(model, error=error)
        report_outcome(model, outcomes[model])

    run_tasks(
        [*plans_by_model],
        pool.open_workers,
        submit,
        has_memory,
        record_outcome,
        pool.worker_errors,
        MAX_BUILD_ATTEMPTS,
    )
    return [outcomes[model] for model in plans_by_model]


class InProcessExecutor(Executor):
    """Executor that runs each task in this process as soon as it is submitted.

    `submit` raises the exception of a task that fails.
    """

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def process_pool(jobs: int, report: ReportProgress) -> Generator[Pool]:
    """Yield a pool of worker processes for `run_builds`, with at most `jobs` at once.

    Each build gets a new process, so that all its memory is freed afterwards. `report` is called in
    this process with a model's name and its current stage.
    """
    with isolated_context() as context, context.Manager() as manager:
        queue = manager.Queue()
        listener = threading.Thread(target=_report_stages, args=(queue, report), daemon=True)
        listener.start()
        open_workers = partial(
            make_worker_pool, context, jobs, _prepare_worker, max_tasks_per_child=1
        )
        yield Pool(open_workers, partial(_send_stage, queue), worker_errors=(BrokenExecutor,))
        queue.put(None)
        listener.join()


def _send_stage(queue: Queue[tuple[str, str] | None], model: str, text: str) -> None:
    """Put the name of a model and its current stage into the queue of the parent process."""
    queue.put((model, text))


def _report_stages(queue: Queue[tuple[str, str] | None], report: ReportProgress) -> None:
    """Take the models and stages out of a queue and pass them to `report`, until the queue contains
    None."""
    while (item := queue.get()) is not None:
        report(*item)


def _prepare_worker() -> None:
    """Set the signal handlers of a worker process.

    It ignores an interruption from the keyboard, because the parent process terminates its workers.
    If it is terminated, it removes its staged files.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process terminates its workers
    signal.signal(signal.SIGTERM, handle_stop_signal)
