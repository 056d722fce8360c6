"""What checks found, in the form that `zoo verify --json` prints."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zoo.manifest.measured import Verification


@dataclass(frozen=True)
class Finding:
    """How one check went; `detail` says in words what was found, and what was asked."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class FileReport:
    """All checks of one ONNX file; `verification` has those of its numbers, if it ran.

    `elsewhere` counts the nodes, by provider and operator, that other providers than the chosen one
    compute; None if the file did not load.
    """

    name: str
    file: str
    passed: bool
    findings: Sequence[Finding]
    verification: Verification | None = None
    elsewhere: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True)
class Report:
    """All checks of a folder, or of one file in it; `absent` names the variants without files."""

    folder: str
    model: str
    provider: str
    passed: bool
    findings: Sequence[Finding]
    variants: Sequence[FileReport]
    absent: Sequence[str] = ()
