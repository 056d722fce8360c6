"""Export many models in one run. An error in one export does not stop the others."""

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


def run_catching_errors(model: str, make_outcome: Callable[[], Outcome]) -> Outcome:
    """Call `make_outcome` for a model, and return its outcome with the duration in seconds.

    A `ZooError` or `WeightsError` does not leave this function. It becomes the `error` of the
    outcome. Other exceptions are raised. JAX's compiled functions are discarded in any case.
    """
    start = time.monotonic()
    try:
        outcome = make_outcome()
    except (ZooError, WeightsError) as error:
        outcome = Outcome(model, error=str(error))
    finally:
        # The compiled functions of this model are not called again.
        jax.clear_caches()
    return replace(outcome, seconds=round(time.monotonic() - start, 1))


def export_models(jobs: Sequence[tuple[ModelInfo, Options]], progress: Progress) -> list[Outcome]:
    """Export each model with its options, one after the other, and return an outcome for each.

    A `ZooError` or `WeightsError` of one model, also about its options, is part of its outcome and
    does not stop the others.
    """

    def export(number: int, entry: ModelInfo, options: Options) -> Outcome:
        """Export the model with this number in the run."""
        numbered = NumberedProgress(progress, f"{number}/{len(jobs)} {entry.name}: ")
        return run_export(plan_files(entry, options), numbered)

    return [
        run_catching_errors(entry.name, partial(export, number, entry, options))
        for number, (entry, options) in enumerate(jobs, start=1)
    ]


@dataclass(frozen=True)
class NumberedProgress(Progress):
    """Progress whose stages begin with `prefix`, such as the number and name of a model."""

    progress: Progress
    prefix: str

    def stage(self, text: str, total: int | None = None) -> None:
        self.progress.stage(self.prefix + text, total)

    def step(self, size: int) -> None:
        self.progress.step(size)

    def note(self, text: str) -> None:
        self.progress.note(text)
