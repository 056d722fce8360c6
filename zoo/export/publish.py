"""Publish files that passed their verification, and say what became of a plan."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from zoo.artifacts.schema import Manifest
from zoo.common.errors import FAILED_CHECK, WRONG_USE
from zoo.export.make import ExportedFile


@dataclass(frozen=True)
class Outcome:
    """Outcome for one model: manifests of the files that were made or are there, or an error.

    Names of files or variants say which were published, were there already, or failed their
    verification and were not published. `nonfinite` names the parameters that hold a NaN or an
    infinity.
    """

    model: str
    manifests: Sequence[Manifest] = ()
    built: Sequence[str] = ()
    already_there: Sequence[str] = ()
    failed: Sequence[str] = ()
    error: str | None = None
    seconds: float = 0.0
    nonfinite: Sequence[str] = ()

    @property
    def code(self) -> int:
        """The exit code of a command about this model alone."""
        if self.error is not None:
            return WRONG_USE
        return FAILED_CHECK if self.failed else 0

    @property
    def record(self) -> dict[str, Any]:
        """The outcome for JSON."""
        return {name: value for name, value in vars(self).items() if name != "nonfinite"}


def publish(file: ExportedFile, keep_inexact: bool, put: Callable[[], None]) -> bool:
    """Put a file in its place if it may be published, and return whether it was.

    This is the only caller of `put`: of a file that failed its verification there is nothing at its
    path.
    """
    if is_publishable := file.is_publishable(keep_inexact):
        put()
    return is_publishable
