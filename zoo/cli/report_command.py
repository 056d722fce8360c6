"""`zoo report`: every model whose weights somebody has, measured, as a page."""

import os
from pathlib import Path
from typing import Annotated

from weights.errors import WeightsError
from weights.opening import read_at_most
from weights.terminal import say
from zoo.artifacts.build.plan import USUAL, read_variants
from zoo.cli import options
from zoo.cli.console import print_json, progress_bar
from zoo.errors import FAILED_CHECK, WRONG_USE, BadOutput

FOLDER = "The folder that holds checkpoints, under the names that they were published with."
IMAGES = (
    "A folder of images, with a folder for each class, or such folders in `train` and `val`. Then "
    "it is also counted how often an image and its nearest neighbours are of the same class."
)

LARGEST_PAGE = 1 << 20
"""Bytes of a page that are searched for what says who wrote it."""


def report(
    weights_dir: Annotated[Path, options.value("DIR", FOLDER)],
    filter: options.Filter = None,
    variant: Annotated[list[str] | None, options.variants(", ".join(USUAL))] = None,
    images: Annotated[Path | None, options.value("FOLDER", IMAGES)] = None,
    out: Annotated[Path, options.FILE_OUT] = Path("docs/pretrained.md"),
    json: options.Json = False,
) -> int:
    """Measure every model for which there is a checkpoint, and write a page about it.

    The features are compared with those of transformers, and each file with the model in JAX. The
    page is written after each model, with its numbers beside it as JSON. What an earlier run found
    out about other models stays on the page.
    """
    from zoo.cli.tables import counted, print_table
    from zoo.registry.lookup import fitting
    from zoo.report import content, matching, neighbours, page
    from zoo.report.accuracy import measure_model

    _check_page(out)
    # What a report measures are pictures.
    fit = fitting(filter or ())
    entries = [entry for entry in fit if entry.config.takes == ("pixel_values",)]
    variants = read_variants(variant or ())
    task = neighbours.read_task(images) if images else None
    whole, measured, code = content.read_report(page.numbers(out)), [], 0
    there = matching.find(weights_dir, entries)
    with progress_bar() as progress:
        for name, reason in there.left_out.items():
            progress.note(f"{name} was left out: {reason}")
        for entry in (entry for entry in entries if entry.name in there.found):
            path = there.found[entry.name]
            progress.stage(f"{entry.name}: reading {path.name}")
            try:
                measured.append(measure_model(entry, path, variants, task, progress))
            except WeightsError as error:
                # One damaged file keeps nobody from the other models.
                progress.note(f"{entry.name} was not measured: {error}")
                code = WRONG_USE
                continue
            whole = page.add(whole, measured[-1])
            page.write_page(whole, out)
    if json:
        print_json(measured)
    else:
        headings = ("model", "file", ">MB", ">max abs", ">cosine", ">k-NN", "")
        rows = [(each.model, *row) for each in measured for row in page.file_rows(each)]
        print_table(headings, rows)
        say(f"{out}: measured {counted(len(measured), 'model')}")
    return code or (0 if all(each.passed for each in measured) else FAILED_CHECK)


def _check_page(page: Path) -> None:
    """**Raises** `BadOutput` where a page is that `zoo report` did not write."""
    if page.suffix != ".md":
        raise BadOutput(f"--out {page} is no page: end its name in .md.")
    if os.path.lexists(page) and b"Written by `zoo report`" not in read_at_most(page, LARGEST_PAGE):
        raise BadOutput(f"{page} was not written by `zoo report`: name another page with --out.")
