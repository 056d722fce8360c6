"""`zoo report`: every model whose weights somebody has, measured, as a folder to be passed on, or
the providers of an ONNX Runtime; and `zoo reports`: such folders as a page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import Filter, Json, options_of
from zoo.cli.console import print_result, progress_bar
from zoo.common.errors import FAILED_CHECK, WRONG_USE, BadRequest
from zoo.common.options import FILE_OUT, FORCE, Option, argument, flag, out_folder
from zoo.common.terminal import say
from zoo.export.assemble.plan import USUAL_VARIANTS, read_variants, variant_names

if TYPE_CHECKING:
    from zoo.report.kit import Outcomes
    from zoo.report.providers import ProvidersReport

FOLDER = "The folder that holds checkpoints, under the names that they were published with."
IMAGES_FOLDER = (
    "A folder of images, with a folder for each class. Then it is also counted how often the "
    "classifiers of files are right."
)
ANNOTATED_FOLDER = (
    "A folder of pictures in COCO's form, with annotations.json. Then it is also measured how "
    "precisely things are found in boxes, which needs pycocotools."
)
MINUTES = Option(
    "N", "The most time that it may take. What does not fit is left for another run.", least=1
)
PROVIDERS = (
    "Try small files of the zoo in every execution provider of the installed ONNX Runtime, with no "
    "checkpoint: what loads and runs, how far it is from the CPU, and how fast."
)
RECEIVED = argument("FOLDER", "Folders that `zoo report` wrote.")


@options_of()
def report(
    weights_dir: Annotated[Path | None, Option("DIR", FOLDER)] = None,
    providers: Annotated[bool, flag(PROVIDERS)] = False,
    filter: Filter = (),
    variant: Annotated[Sequence[str], variant_names(", ".join(USUAL_VARIANTS))] = (),
    images: Annotated[Path | None, Option("FOLDER", IMAGES_FOLDER)] = None,
    boxes: Annotated[Path | None, Option("FOLDER", ANNOTATED_FOLDER)] = None,
    minutes: Annotated[float, MINUTES] = 60,
    out: Annotated[Path, out_folder(True)] = Path("report"),
    json: Json = False,
) -> int:
    """Measure every model for which there is a checkpoint, in an hour at most; or providers.

    The features are compared with those of transformers, and each file with the model in JAX. The
    folder then has the numbers, beside what is reported elsewhere, and pictures, but no weights: it
    can be attached to an issue. It is written anew after each model, and a run that was stopped
    goes on when it is started again.
    """
    if providers:
        if weights_dir or images or boxes:
            raise BadRequest(
                "--providers needs no --weights-dir, --images or --boxes: leave them out."
            )
        return _report_providers(filter, variant, out, json)
    if weights_dir is None:
        raise BadRequest("--weights-dir is missing: name a folder of checkpoints.")
    from zoo.registry.lookup import fitting
    from zoo.report import kit
    from zoo.report.box_precision import read_box_task
    from zoo.report.labelled import read_task

    # What a report measures are pictures.
    fit = [entry for entry in fitting(filter) if entry.config.takes == ("pixel_values",)]
    task = read_task(images) if images else None
    things = read_box_task(boxes) if boxes else None
    chosen = read_variants(variant)
    asked = kit.ReportRequest(weights_dir, fit, chosen, task, minutes, out, things)
    with progress_bar() as progress:
        outcomes = kit.make_report(asked, progress)
    print_result(json, outcomes, partial(_show, out=out), lambda done: done.report)
    measured = (each for each in outcomes.report.models if each.model in outcomes.measured)
    passed = all(each.passed for each in measured)
    return WRONG_USE if outcomes.failed else 0 if passed else FAILED_CHECK


def _report_providers(filter: Sequence[str], variant: Sequence[str], out: Path, json: bool) -> int:
    """Measure files in all providers, and print a row for each."""
    from zoo.registry.lookup import fitting
    from zoo.report.providers import FILE, ProvidersRequest, report_providers

    models = [each.name for each in fitting(filter)] if filter else list(USUAL_VARIANTS)
    asked = ProvidersRequest(models, read_variants(variant or ["all"]), out)
    with progress_bar() as progress:
        measured = report_providers(asked, progress)
    print_result(json, measured, _show_providers)
    if not json:
        say(f"{out / FILE}: to pass it on, attach it to an issue")
    return 0


def _show_providers(measured: "ProvidersReport") -> None:
    """A row for each file and provider."""
    from zoo.cli.tables import print_table

    headings = ("model", "file", "for", "provider", ">nodes", ">ms", ">max rel", ">cosine", "")
    rows = []
    for file in measured.files:
        for provider, ran in file.outcomes.items():
            numbers = (ran.run_ms, ran.max_rel, ran.cosine)
            shown = [
                "" if number is None else form.format(number)
                for number, form in zip(numbers, ("{:.1f}", "{:.1e}", "{:.5f}"), strict=True)
            ]
            short = provider.removesuffix("ExecutionProvider")
            nodes = (
                f"{ran.nodes.get(provider, 0)} of {sum(ran.nodes.values())}" if ran.nodes else ""
            )
            words = (file.model, file.file, file.target, short, nodes)
            rows.append((*words, *shown, ran.failed or ""))
    print_table(headings, rows)


def _show(outcomes: "Outcomes", out: Path) -> None:
    """A row a file, and where all of it is."""
    from zoo.cli.tables import counted, print_table
    from zoo.report.page import file_rows

    headings = ("model", "file", ">MB", ">max abs", ">cosine", "")
    models = [each for each in outcomes.report.models if each.model in outcomes.measured]
    print_table(headings, [(each.model, *row) for each in models for row in file_rows(each)])
    summary = f"{out}: measured {counted(len(outcomes.measured), 'model')}"
    summary += f", {len(outcomes.already)} before" if outcomes.already else ""
    summary += f", {len(outcomes.left)} left for another run" if outcomes.left else ""
    say(f"{summary}; to pass it on, attach the folder as a .zip to an issue")


@options_of()
def reports(
    folders: Annotated[Sequence[Path], RECEIVED],
    out: Annotated[Path, FILE_OUT] = Path("reports.html"),
    force: Annotated[bool, FORCE] = False,
    json: Json = False,
) -> None:
    """Make one page of reports that were received: what was measured, beside each other."""
    from zoo.report.received import write_received

    count = write_received(folders, out, force)
    made = {"file": out, "measurements": count, "reports": len(folders)}
    print_result(json, made, lambda _: say(f"{out}: {count} measurements, {len(folders)} reports"))
