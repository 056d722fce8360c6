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


class Log:
    """Lines for a log."""

    def __init__(self) -> None:
        self.begun: set[str] = set()

    def told(self, model: str, text: str) -> None:
        if model not in self.begun:
            self.begun.add(model)
            log(f"{model}: building")

    def finished(self, model: str, outcome: Outcome) -> None:
        log(f"{model}: {build_summary(outcome)}")


class Rows:
    """Rows of rich's progress display."""

    def __init__(self, rich: Progress, plans: Sequence[Plan]):
        self.rich = rich
        names = [plan.model.name for plan in plans]
        self.rows = {
            name: rich.add_task("waiting", total=1, model=name, start=False) for name in names
        }

    def told(self, model: str, text: str) -> None:
        self.rich.start_task(self.rows[model])
        self.rich.update(self.rows[model], description=printable(text))

    def finished(self, model: str, outcome: Outcome) -> None:
        summary = printable(build_summary(outcome))
        self.rich.update(self.rows[model], description=summary, completed=1)


@contextmanager
def board(plans: Sequence[Plan]) -> Generator[Log | Rows]:
    """A line for each plan on a terminal; elsewhere one when a build begins and one at its end."""
    if not is_terminal(sys.stderr):
        yield Log()
        return
    columns = (SpinnerColumn(), "{task.fields[model]}", "{task.description}", TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        yield Rows(shown, plans)


def build_summary(outcome: Outcome) -> str:
    """Summary of a build, in a line."""
    if outcome.error is not None:
        return "failed"  # why is said when all builds are through
    parts = {"built": outcome.built, "already there": outcome.already_there}
    parts |= {"not good enough": outcome.failed}
    said = [f"{', '.join(names)} {what}" for what, names in parts.items() if names]
    return f"{'; '.join(said)} ({outcome.seconds:.0f} s)"
