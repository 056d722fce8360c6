"""Results of checks as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.artifacts.audit.findings import FileReport, Finding, FolderReport

STATES = {True: "ok", False: "FAILED"}


def show_audit(report: FolderReport) -> None:
    """Every check of the folder, then of each file; and what is not there."""
    state = "passed" if report.passed else "FAILED"
    table = Table(title=Text(f"{report.model}: {state} ({report.provider})"))
    for name in ("of", "check", "", "found"):
        table.add_column(name, overflow="fold")
    for place, findings in (
        ("folder", report.findings),
        *((file.name, file.findings) for file in report.files),
    ):
        for row in rows(place, findings):
            table.add_row(*row)
        table.add_section()
    console = Console()
    console.print(table)
    if report.absent:
        line = f"not there, and not checked: {', '.join(report.absent)}"
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def show_findings(report: FileReport) -> None:
    """Every check of one file."""
    table = Table()
    for name in ("check", "", "found"):
        table.add_column(name, overflow="fold")
    for _, *row in rows(report.name, report.findings):
        table.add_row(*row)
    Console().print(table)


def rows(place: str, findings: Sequence[Finding]) -> Iterator[tuple[Text, ...]]:
    """A row a check; the place only in the first."""
    for index, finding in enumerate(findings):
        first = "" if index else place
        texts = (first, finding.check, STATES[finding.passed], finding.detail)
        # What a damaged file brings along is shown, never acted on.
        yield tuple(Text("".join(c if c.isprintable() else "?" for c in text)) for text in texts)
