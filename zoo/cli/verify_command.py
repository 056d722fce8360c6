"""`zoo verify`: is a folder, or a file, still what its manifest says, and still right?"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zoo.checkpoints.source import ADAPTER_BASE, TAKE, WITHOUT_HEAD, read_weights
from zoo.cli.command_options import Plot, options_of
from zoo.cli.console import CommandResult, progress_bar
from zoo.common.errors import FAILED_CHECK, BadFile, BadRequest
from zoo.common.options import Option, argument, weights_from
from zoo.common.staging import manifest_path
from zoo.common.terminal import complain

if TYPE_CHECKING:
    from zoo.artifacts.folder_check import AuditReport, Finding
    from zoo.checkpoints.source import Choice
    from zoo.cli.tables import Block

ONNX = Option("FILE", "An exported file to compare golden numbers with.")


@options_of()
def verify(
    target: Annotated[
        Path,
        argument(
            "FILE|DIR",
            "A built or pulled folder, a file in one, a file that `zoo export` wrote, or golden "
            "numbers, NAME.safetensors.",
        ),
    ],
    weights: Annotated[str | None, weights_from("those that the manifest names")] = None,
    take: Annotated[str, TAKE] = "",
    without_head: Annotated[bool, WITHOUT_HEAD] = False,
    base: Annotated[Path | None, ADAPTER_BASE] = None,
    onnx: Annotated[Path | None, ONNX] = None,
    provider: Annotated[
        str, Option("NAME", "ONNX Runtime's provider, such as CUDAExecutionProvider.")
    ] = "CPUExecutionProvider",
    plot: Plot = None,
) -> CommandResult[Any]:
    """Check that a file or a folder is what its manifest says, and that its numbers are right.

    A folder is compared with the outputs that it holds. A file of `zoo export` is compared with the
    model in JAX. Golden numbers, which `zoo golden` writes, are compared with the model in JAX that
    --weights names (within 3e-5) and with the file that --onnx names (within 1e-4).
    """
    from zoo.apps.show.save import check_plot

    check_plot(plot)
    if not target.exists():
        raise BadFile(f"{target} does not exist: give a folder or an .onnx file.")
    how = {"take": take, "without_head": without_head, "base": base}
    chosen = read_weights("auto" if weights is None else weights, **how)
    if target.suffix == ".safetensors" and target.is_file():
        return _verify_golden(target, chosen if weights else None, onnx, provider, plot)
    if onnx is not None:
        raise BadRequest(
            f"--onnx {onnx} is compared with golden numbers: give {target} without it, or name a "
            "file of golden numbers."
        )
    alone = target.is_file() and manifest_path(target).is_file()
    if weights is not None and not alone:
        raise BadRequest(
            f"--weights {weights} has no effect on a folder, which is compared with the golden "
            "numbers that it holds: leave it out."
        )
    from zoo.export.audit.checks import audit_export, audit_folder, audit_one

    with progress_bar() as progress:
        if alone:
            report = audit_export(target, weights and chosen, provider, progress)
        else:
            check = audit_folder if target.is_dir() else audit_one
            report = check(target, provider, progress)
    if plot is not None:
        _draw(report, plot)
    blocks = partial(audit_blocks, exported=target if alone else None)
    return CommandResult(report, blocks, report_record, 0 if report.passed else FAILED_CHECK)


def _verify_golden(
    file: Path,
    chosen: "Choice | None",
    onnx: Path | None,
    provider: str,
    plot: Path | None,
) -> CommandResult[list[dict[str, Any]]]:
    if plot is not None:
        raise BadRequest(f"--plot {plot} draws the errors of a file or a folder: leave it out.")
    from zoo.checkpoints.golden import (
        JAX_ATOL,
        ONNX_ATOL,
        check_jax,
        check_onnx,
        load_named_weights,
    )
    from zoo.cli.tables.export_table import difference_table, golden_errors
    from zoo.common.golden_file import read_golden

    reference = read_golden(file)
    rows: list[dict[str, Any]] = []
    if chosen is not None:
        with progress_bar() as progress:
            loaded = load_named_weights(reference.model, chosen, progress)
        rows += golden_errors("JAX", check_jax(reference, loaded), JAX_ATOL)
    if onnx is not None:
        rows += golden_errors("ONNX", check_onnx(reference, onnx, provider), ONNX_ATOL)
    if not rows:
        raise BadRequest("name a checkpoint with --weights or a file with --onnx to compare.")
    passed = all(row["passed"] for row in rows)
    facts = {"model": reference.model, "reference": reference.reference, "passed": passed}
    title = f"{reference.model} against {reference.reference} ({file.name})"
    return CommandResult(
        rows,
        lambda rows: [difference_table(title, rows)],
        lambda rows: facts | {"comparisons": rows},
        0 if passed else FAILED_CHECK,
    )


def _draw(report: "AuditReport", plot: Path) -> None:
    """Where the errors of each file lie, if its numbers could be compared."""
    from zoo.apps.show.chart import draw_residuals, residual_rows
    from zoo.apps.show.save import save_chart

    rows = []
    for file in report.variants:
        if file.residuals is not None and file.verification is not None:
            residuals = file.residuals()
            title = f"{report.model}, {file.name}"
            rows += residual_rows(title, residuals.outputs, residuals.grid, file.verification)
    if not rows:
        reason = "no file could be compared" if not report.passed else "nothing was compared"
        complain(f"{plot} was not drawn: {reason}")
        return
    save_chart(draw_residuals(rows), plot)


def report_record(report: "AuditReport") -> dict[str, Any]:
    """A report for JSON."""
    shown = (vars(file).items() for file in report.variants)
    files = [{key: it for key, it in items if key != "residuals"} for items in shown]
    return vars(report) | {"variants": files}


def audit_blocks(report: "AuditReport", exported: Path | None = None) -> "Iterator[Block]":
    """Every output of a file that was `exported` alone; every check of the folder, then of each
    file; and what is not there."""
    from zoo.artifacts.words import passed_or_failed
    from zoo.cli.tables import Table
    from zoo.cli.tables.export_table import verification_table

    if exported is not None and (verification := report.variants[0].verification):
        yield verification_table(exported, verification)
    files = ((file.name, file.findings) for file in report.variants)
    places = [("folder", report.findings), *files]
    lines = [row for place, findings in places for row in check_rows(place, findings)]
    title = f"{report.model}: {passed_or_failed(report.passed)} ({report.provider})"
    yield Table(("~of", "~check", "", "~found"), lines, title)
    if report.absent:
        yield f"not there, and not checked: {', '.join(report.absent)}"


def check_rows(place: str, findings: "Sequence[Finding]") -> Iterator[tuple[str, ...]]:
    """A row a check; the place only in the first."""
    for index, finding in enumerate(findings):
        state = "ok" if finding.passed else "FAILED"
        texts = ("" if index else place, finding.check, state, finding.detail)
        # What a damaged file brings along is shown, never acted on.
        yield tuple("".join(c if c.isprintable() else "?" for c in text) for text in texts)
