"""Show one line for each build: its current step, then its outcome."""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TimeElapsedColumn

from weights.printable import printable
from zoo.common.progress import is_terminal, log
from zoo.export.exporter import Outcome
from zoo.export.request import Plan


class BuildLog:
    """The progress of builds as lines in a log.

    One line is written when a build starts, and one when it ends.
    """

    def __init__(self) -> None:
        self.started_models: set[str] = set()

    def show_step(self, model: str, text: str) -> None:
        """Write a line when a model's first step starts.

        `text` describes the step. It is not shown.
        """
        if model not in self.started_models:
            self.started_models.add(model)
            log(f"{model}: building")

    def show_outcome(self, model: str, outcome: Outcome) -> None:
        """Write the outcome of a model's build as a line."""
        log(f"{model}: {summarize_outcome(outcome)}")


class BuildDisplay:
    """The progress of builds as rows of a progress display of rich, one for each model.

    `plans` are the builds, whose rows are created at once and marked as waiting.
    """

    def __init__(self, rich: Progress, plans: Sequence[Plan]):
        self.rich = rich
        names = [plan.model.name for plan in plans]
        self.rows = {
            name: rich.add_task("waiting", total=1, model=name, start=False) for name in names
        }

    def show_step(self, model: str, text: str) -> None:
        """Show a model's current step in its row. `text` describes the step."""
        self.rich.start_task(self.rows[model])
        self.rich.update(self.rows[model], description=printable(text))

    def show_outcome(self, model: str, outcome: Outcome) -> None:
        """Show the outcome of a model's build in its row, and mark the row as completed."""
        summary = printable(summarize_outcome(outcome))
        self.rich.update(self.rows[model], description=summary, completed=1)


@contextmanager
def show_builds(plans: Sequence[Plan]) -> Generator[BuildLog | BuildDisplay]:
    """Yield a display of one row for each build if stderr is a terminal, otherwise a log."""
    if not is_terminal(sys.stderr):
        yield BuildLog()
        return
    columns = (SpinnerColumn(), "{task.fields[model]}", "{task.description}", TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as rich_progress:
        yield BuildDisplay(rich_progress, plans)


def summarize_outcome(outcome: Outcome) -> str:
    """Return a summary of a build's outcome in one line, such as `fp32, fp16 built (12 s)`.

    A failed build is only called `failed`, because its error is printed when all builds have ended.
    """
    if outcome.error is not None:
        return "failed"  # the error is printed when all builds are finished
    parts = {"built": outcome.built, "already there": outcome.already_there}
    parts |= {"not good enough": outcome.failed}
    phrases = [f"{', '.join(names)} {state}" for state, names in parts.items() if names]
    return f"{'; '.join(phrases)} ({outcome.seconds:.0f} s)"
