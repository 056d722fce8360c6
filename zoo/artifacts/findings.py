"""What checks found, in the form that `zoo verify --json` prints."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.artifacts.measured import Verification
from zoo.images.pixel_values import Size


@dataclass(frozen=True)
class Finding:
    """How one check went; `detail` says in words what was found, and what was asked."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Residuals:
    """Absolute differences of outputs for one image of `grid`, rows and columns of patches."""

    grid: Size
    outputs: Mapping[str, NDArray[np.float32]]


@dataclass(frozen=True)
class Judged:
    """How a file's numbers are; `residuals` computes where they differ, if they could be had."""

    finding: Finding
    verification: Verification | None = None
    residuals: Callable[[], Residuals] | None = None


def residuals(
    grid: Size, got: Mapping[str, NDArray[Any]], expected: Mapping[str, NDArray[Any]]
) -> Residuals:
    """Residuals of outputs by their names, in float32."""
    pairs = {name: (np.asarray(got[name], np.float32), expected[name]) for name in expected}
    return Residuals(grid, {name: abs(have - want) for name, (have, want) in pairs.items()})


@dataclass(frozen=True)
class FileReport:
    """All checks of one ONNX file; `verification` has those of its numbers, if it ran.

    `residuals` says where these lie. `elsewhere` counts the nodes, by provider and operator, that
    other providers than the chosen one compute; None if the file did not load.
    """

    name: str
    file: str
    passed: bool
    findings: Sequence[Finding]
    verification: Verification | None = None
    elsewhere: Mapping[str, Mapping[str, int]] | None = None
    residuals: Callable[[], Residuals] | None = None


@dataclass(frozen=True)
class AuditReport:
    """All checks of a folder, or of one file in it; `absent` names the variants without files."""

    folder: str
    model: str
    provider: str
    passed: bool
    findings: Sequence[Finding]
    variants: Sequence[FileReport]
    absent: Sequence[str] = ()
