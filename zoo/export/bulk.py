"""Many exports in one run; one that fails does not keep the others from being made."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import jax

from weights.errors import WeightsError
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.artifacts.schema import Manifest
from zoo.common.errors import FAILED_CHECK, WRONG_USE, ZooError
from zoo.export.request import Options, read_request
from zoo.export.run import run_export


@dataclass(frozen=True)
class Outcome:
    """Outcome for one model: manifests of what there is, or why there is nothing.

    Names of files or variants tell which were made, were there already, or are wrong and were not
    put in place. This is what `--json` prints.
    """

    model: str
    manifests: Sequence[Manifest] = ()
    built: Sequence[str] = ()
    already_there: Sequence[str] = ()
    failed: Sequence[str] = ()
    error: str | None = None
    seconds: float = 0.0

    @property
    def code(self) -> int:
        """The exit code of a command about this model alone."""
        if self.error is not None:
            return WRONG_USE
        return FAILED_CHECK if self.failed else 0


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
        exports = run_export(read_request(entry, options), numbered)
        return Outcome(
            entry.name,
            [each.manifest for each in exports],
            built=[each.target.name for each in exports if each.published],
            failed=[each.target.name for each in exports if not each.published],
        )

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
