"""Many exports in one run; one that fails does not keep the others from being made."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax

from weights.errors import WeightsError
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import ZooError
from zoo.export.exporter import Outcome
from zoo.export.request import Options, plan_files
from zoo.export.run import run_export


def attempt(model: str, work: Callable[[], Outcome]) -> Outcome:
    """Do the work for a model; what is wrong with the request is part of the outcome."""
    began = time.monotonic()
    try:
        outcome = work()
    except (ZooError, WeightsError) as error:
        outcome = Outcome(model, error=str(error))
    finally:
        # Nobody calls this model's compiled functions again.
        jax.clear_caches()
    return replace(outcome, seconds=round(time.monotonic() - began, 1))


def run_bulk(jobs: Sequence[tuple[ModelInfo, Options]], progress: Progress) -> list[Outcome]:
    """Export every model with its options."""

    def export(number: int, entry: ModelInfo, options: Options) -> Outcome:
        numbered = NumberedProgress(progress, f"{number}/{len(jobs)} {entry.name}: ")
        return run_export(plan_files(entry, options), numbered)

    return [
        attempt(entry.name, partial(export, number, entry, options))
        for number, (entry, options) in enumerate(jobs, start=1)
    ]


@dataclass(frozen=True)
class NumberedProgress(Progress):
    """Progress that says which of many models it is about."""

    progress: Progress
    prefix: str

    def stage(self, text: str, total: int | None = None) -> None:
        self.progress.stage(self.prefix + text, total)

    def step(self, size: int) -> None:
        self.progress.step(size)

    def note(self, text: str) -> None:
        self.progress.note(text)
