"""The page of a report, and the numbers beside it as JSON."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from zoo.files.staging import replacing, write_text
from zoo.manifest.markdown import markdown
from zoo.manifest.measured import worst
from zoo.manifest.read import to_text
from zoo.manifest.words import passed
from zoo.registry.lookup import MODELS
from zoo.report.content import Measured, Report

TEMPLATE = "pretrained.md.jinja"


def numbers(page: Path) -> Path:
    """Where the numbers of a page lie."""
    return page.with_suffix(".json")


def add(report: Report, new: Measured) -> Report:
    """A report with another model, which takes the place of an earlier measurement."""
    found = {each.model: each for each in (*report.models, new)}
    # A model that the zoo has no more goes.
    models = tuple(found[name] for name in MODELS if name in found)
    return report.model_copy(update={"models": models})


def write_page(report: Report, page: Path) -> None:
    """Put the page and its numbers in place. **Raises** `BadOutput`."""
    for place, text in ((numbers(page), to_text(report)), (page, render(report))):
        with replacing(place) as file:
            write_text(file, text)


def render(report: Report) -> str:
    """The page as Markdown."""
    return markdown(
        TEMPLATE,
        models=report.models,
        rows=[(each, *row) for each in report.models for row in file_rows(each)],
        tasks=[each for each in report.models if each.neighbours],
        number=number,
        verdict={True: "yes", False: "no", None: "not known"},
    )


def number(error: float | None) -> str:
    """An error in two digits."""
    return "no number" if error is None else f"{error:.1e}"


def file_rows(measured: Measured) -> Iterator[Sequence[str]]:
    """Of each file: name, megabytes, largest error, least cosine, accuracy, verdict."""
    for name, file in measured.files.items():
        cosine = worst(file.verification.comparisons, "cosine")
        yield (
            name,
            f"{file.bytes / 1e6:.1f}",
            number(worst(file.verification.comparisons, "max_abs")),
            "no number" if cosine is None else f"{cosine:.6f}",
            "" if file.accuracy is None else f"{100 * file.accuracy:.2f} %",
            passed(file.verification.passed),
        )
