"""Many exports in one run; one that fails does not keep the others from being made."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax

import converter
from weights.errors import WeightsError
from weights.progress import Progress
from zoo.errors import FAILED_CHECK, WRONG_USE, ZooError
from zoo.export.request import Options, read_request
from zoo.export.run import run as export
from zoo.manifest.schema import Manifest
from zoo.registry.entry import ModelInfo


@dataclass(frozen=True)
class Outcome:
    """What became of one model: manifests of what was written, or why there is nothing."""

    model: str
    seconds: float
    manifests: tuple[Manifest, ...] = ()
    failed: tuple[Path, ...] = ()
    error: str | None = None

    @property
    def code(self) -> int:
        """The exit code that an export of this model alone would have had."""
        if self.error is not None:
            return WRONG_USE
        return FAILED_CHECK if self.failed else 0


def run(jobs: Sequence[tuple[ModelInfo, Options]], progress: Progress) -> list[Outcome]:
    """Export every model with its options."""
    return [
        _one(entry, options, Numbered(progress, f"{number}/{len(jobs)} {entry.name}: "))
        for number, (entry, options) in enumerate(jobs, start=1)
    ]


def _one(entry: ModelInfo, options: Options, progress: Progress) -> Outcome:
    began = time.monotonic()
    try:
        exports = export(read_request(entry.name, options, converter.OPSETS), progress)
    except (ZooError, WeightsError) as error:
        return Outcome(entry.name, time.monotonic() - began, error=str(error))
    finally:
        # Nobody calls this model's compiled functions again.
        jax.clear_caches()
    return Outcome(
        entry.name,
        time.monotonic() - began,
        tuple(item.manifest for item in exports),
        tuple(item.target for item in exports if not item.published),
    )


def record(outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON."""
    return {
        "model": outcome.model,
        "seconds": round(outcome.seconds, 1),
        "error": outcome.error,
        "failed": [path.name for path in outcome.failed],
        "manifests": list(outcome.manifests),
    }


@dataclass(frozen=True)
class Numbered(Progress):
    """Progress that says which of many models it is about."""

    progress: Progress
    prefix: str

    def stage(self, text: str, total: int | None = None) -> None:
        """A stage of this model."""
        self.progress.stage(self.prefix + text, total)

    def step(self, size: int) -> None:
        """So many more bytes are done."""
        self.progress.step(size)
