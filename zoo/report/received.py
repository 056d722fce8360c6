"""Reports that others have sent, as one page that needs no other file.

What is in them is shown, and no more: texts are escaped, and pictures are drawn anew.
"""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from weights.opening import open_inside
from weights.parameters import parameter
from zoo.artifacts.words import html_page
from zoo.common.errors import BadFile, BadRequest
from zoo.common.staging import check_free, replacing, write_text
from zoo.images.pictures import read_picture
from zoo.report.content import REPORT, Measured, ReportContent, read_report
from zoo.report.page import IS_PUBLISHED, file_rows, number, result_rows

REPORTS_TEMPLATE = "reports.html.jinja"
LARGEST_SHOWN = 16 << 20
WIDEST = 1400
"""Pixels of a picture on the page."""


@dataclass(frozen=True)
class Received:
    """A report: what its folder is called, its numbers, and its pictures as `data:` addresses."""

    name: str
    report: ReportContent
    pictures: Mapping[str, str]


def write_received(folders: Sequence[Path], out: Path, force: bool) -> int:
    """Write the page of some reports; how many measurements it has. **Raises** a `ZooError`."""
    if out.suffix != ".html":
        raise BadRequest(f"{parameter('out')} {out} is no page: end its name in .html.")
    check_free(out, force)
    reports = [read_received(folder) for folder in folders]
    text = render_received(reports)
    with replacing(out) as file:
        write_text(file, text)
    return sum(len(each.report.models) for each in reports)


def read_received(folder: Path) -> Received:
    """The report in a folder, with those of its pictures that can be read. **Raises** `BadFile`."""
    if not (folder / REPORT).is_file():
        raise BadFile(f"{folder} holds no {REPORT}: name folders that `zoo report` wrote.")
    report = read_report(folder / REPORT)
    names = {name for each in report.models for name in each.pictures}
    pictures = {name: as_address(folder, name) for name in sorted(names)}
    return Received(folder.absolute().name, report, {k: v for k, v in pictures.items() if v})


def as_address(folder: Path, name: str) -> str | None:
    """A picture as a `data:` address, or None if it is none: it is drawn anew, so that nothing but
    its pixels comes along."""
    try:
        with open_inside(folder, name) as file:
            image = read_picture(file.read(LARGEST_SHOWN), name).image
    except (OSError, BadRequest):
        return None
    image.thumbnail((WIDEST, WIDEST * 8))
    drawn = BytesIO()
    image.save(drawn, "WEBP", quality=85)
    return f"data:image/webp;base64,{b64encode(drawn.getvalue()).decode()}"


def render_received(reports: Sequence[Received]) -> str:
    """The page as HTML, models of the same name beside each other."""
    return html_page(
        REPORTS_TEMPLATE,
        reports=reports,
        rows=[(name, each, *row) for name, each in by_model(reports) for row in file_rows(each)],
        results=[
            (name, each, *row) for name, each in by_model(reports) for row in result_rows(each)
        ],
        number=number,
        verdict=IS_PUBLISHED,
    )


def by_model(reports: Sequence[Received]) -> Iterator[tuple[str, Measured]]:
    """Every measurement and its report's name, in the order of models."""
    rows = [(each.model, one.name, each) for one in reports for each in one.report.models]
    for _, name, each in sorted(rows, key=lambda row: row[:2]):
        yield name, each
