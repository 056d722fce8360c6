"""What checks found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from zoo.manifest.schema import Comparison, Verification


@dataclass(frozen=True)
class Finding:
    """How one check went; `detail` says in words what was found, and what was asked."""

    check: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class FileReport:
    """All checks of one ONNX file. `elsewhere` counts the nodes, by provider and operator, that
    other providers than the chosen one compute; None if the file did not load.
    """

    name: str
    file: str
    findings: Sequence[Finding]
    comparisons: Sequence[Comparison] = ()
    elsewhere: Mapping[str, Mapping[str, int]] | None = None

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)


@dataclass(frozen=True)
class FolderReport:
    """All checks of a folder, or of one file in it; `absent` names the variants without files."""

    folder: str
    model: str
    provider: str
    findings: Sequence[Finding]
    files: Sequence[FileReport]
    absent: Sequence[str] = field(default=())

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.findings) and all(f.passed for f in self.files)


def record(report: FolderReport) -> dict[str, Any]:
    """A report for JSON."""
    return {
        "folder": report.folder,
        "model": report.model,
        "provider": report.provider,
        "passed": report.passed,
        "findings": [asdict(finding) for finding in report.findings],
        "variants": [record_file(file) for file in report.files],
        "absent": list(report.absent),
    }


def record_file(report: FileReport) -> dict[str, Any]:
    """A file's report for JSON."""
    return {
        "name": report.name,
        "file": report.file,
        "passed": report.passed,
        "findings": [asdict(finding) for finding in report.findings],
        "comparisons": list(report.comparisons),
        "elsewhere": report.elsewhere,
    }


def record_export(verification: Verification, report: FileReport) -> dict[str, Any]:
    """The report of an exported file for JSON, with its comparisons with JAX."""
    return {
        **record_file(report),
        "passed": verification.passed and report.passed,
        "measure": verification.measure,
        "limit": verification.limit,
        "comparisons": verification.comparisons,
    }
