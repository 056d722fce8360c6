"""Results of checks as a person reads them."""

from collections.abc import Iterator, Sequence

from zoo.artifacts.audit.findings import Finding, Report
from zoo.cli.tables import passed, print_table


def show_audit(report: Report) -> None:
    """Every check of the folder, then of each file; and what is not there."""
    files = ((file.name, file.findings) for file in report.variants)
    places = [("folder", report.findings), *files]
    lines = [row for place, findings in places for row in rows(place, findings)]
    title = f"{report.model}: {passed(report.passed)} ({report.provider})"
    print_table(("~of", "~check", "", "~found"), lines, title)
    if report.absent:
        print(f"not there, and not checked: {', '.join(report.absent)}")


def rows(place: str, findings: Sequence[Finding]) -> Iterator[tuple[str, ...]]:
    """A row a check; the place only in the first."""
    for index, finding in enumerate(findings):
        state = "ok" if finding.passed else "FAILED"
        texts = ("" if index else place, finding.check, state, finding.detail)
        # What a damaged file brings along is shown, never acted on.
        yield tuple("".join(c if c.isprintable() else "?" for c in text) for text in texts)
