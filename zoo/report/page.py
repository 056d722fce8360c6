"""The folder of a report: its numbers as JSON, and the same as a page for people."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from weights.parameters import parameter
from zoo.architectures.entry import MEASURED_TASKS, Task
from zoo.artifacts.markdown import markdown
from zoo.artifacts.measured import worst
from zoo.artifacts.read import to_text
from zoo.artifacts.words import passed
from zoo.common.errors import BadOutput
from zoo.common.staging import replacing, write_text
from zoo.registry.lookup import MODELS
from zoo.report.content import (
    EMPTY,
    ERROR_PICTURE,
    FEATURES,
    PAGE,
    REPORT,
    Measured,
    ReportContent,
    read_report,
)

PAGE_TEMPLATE = "pretrained.md.jinja"


def report_so_far(folder: Path) -> ReportContent:
    """The report in a folder so far; an empty one where there is none. **Raises** `BadOutput` for
    a folder of something else, and `BadFile`."""
    if (folder / REPORT).is_file():
        return read_report(folder / REPORT)
    # Whoever is stopped before there are numbers leaves pictures.
    if os.path.lexists(folder) and not (
        folder.is_dir()
        and all(name.endswith((FEATURES, ERROR_PICTURE)) for name in os.listdir(folder))
    ):
        raise BadOutput(
            f"{folder} is there and holds no report: name another folder with {parameter('out')}."
        )
    return EMPTY


def write_report(report: ReportContent, folder: Path) -> None:
    """Put the numbers and their page in place. **Raises** `BadOutput`."""
    for name, text in ((REPORT, to_text(report)), (PAGE, render(report))):
        with replacing(folder / name) as file:
            write_text(file, text)


def add(report: ReportContent, new: Measured) -> ReportContent:
    """A report with another model, which takes the place of an earlier measurement."""
    by_model = {each.model: each for each in (*report.models, new)}
    # A model that the zoo has no more goes.
    models = tuple(by_model[name] for name in MODELS if name in by_model)
    return report.model_copy(update={"models": models})


def render(report: ReportContent) -> str:
    """The page as Markdown."""
    return markdown(
        PAGE_TEMPLATE,
        models=report.models,
        rows=[(each, *row) for each in report.models for row in file_rows(each)],
        results=[(each, *row) for each in report.models for row in result_rows(each)],
        tasks=[
            each
            for each in report.models
            if each.images and any("classifier" in file.scores for file in each.files.values())
        ],
        number=number,
        verdict=IS_PUBLISHED,
    )


IS_PUBLISHED = {True: "yes", False: "no", None: "not known"}


def number(error: float | None) -> str:
    """An error in two digits."""
    return "no number" if error is None else f"{error:.1e}"


def file_rows(measured: Measured) -> Iterator[Sequence[str]]:
    """Row of each file: name, megabytes, largest error, least cosine, verdict."""
    for name, file in measured.files.items():
        cosine = worst(file.verification.comparisons, "cosine")
        yield (
            name,
            f"{file.bytes / 1e6:.1f}",
            number(worst(file.verification.comparisons, "max_abs")),
            "no number" if cosine is None else f"{cosine:.6f}",
            passed(file.verification.passed),
        )


def result_rows(measured: Measured) -> Iterator[Sequence[str]]:
    """Row of each task: how it is measured, what is reported on which data by whom, and what each
    file did here on the user's images."""
    reported = MODELS[measured.model].reported if measured.model in MODELS else ()
    rows = [(each.task, f"{each.value}", each.data, each.source) for each in reported]
    tasks = {task for file in measured.files.values() for task in file.scores}
    rows += [(task, "no figure is known", "", "") for task in sorted(tasks - {t for t, *_ in rows})]
    for task, value, data, source in rows:
        yield task, MEASURED_TASKS[task], value, data, source, found_here(measured, task)


def found_here(measured: Measured, task: Task) -> str:
    """Scores of each file in a task, or that it was not measured."""
    scores = [
        f"{name} {file.scores[task]:.2f}"
        for name, file in measured.files.items()
        if task in file.scores
    ]
    return ", ".join(scores) or "not measured"
