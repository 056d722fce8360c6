"""Results of checks as a person reads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from zoo.artifacts.audit.findings import Finding, Report
from zoo.cli.tables import print_table, table

STATES = {True: "ok", False: "FAILED"}


def show_audit(report: Report) -> None:
    """Every check of the folder, then of each file; and what is not there."""
    state = "passed" if report.passed else "FAILED"
    title = f"{report.model}: {state} ({report.provider})"
    lines = table("~of", "~check", "", "~found", title=title)
    for place, findings in (
        ("folder", report.findings),
        *((file.name, file.findings) for file in report.variants),
    ):
        for row in rows(place, findings):
            lines.add_row(*row)
    print_table(lines)
    if report.absent:
        print(f"not there, and not checked: {', '.join(report.absent)}")


def rows(place: str, findings: Sequence[Finding]) -> Iterator[tuple[Text, ...]]:
    """A row a check; the place only in the first."""
    for index, finding in enumerate(findings):
        first = "" if index else place
        texts = (first, finding.check, STATES[finding.passed], finding.detail)
        # What a damaged file brings along is shown, never acted on.
        yield tuple(Text("".join(c if c.isprintable() else "?" for c in text)) for text in texts)
