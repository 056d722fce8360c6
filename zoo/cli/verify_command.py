"""`zoo verify`: check files against their manifests, and their outputs against JAX."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zoo.checkpoints.source import ADAPTER_BASE, TAKE, WITHOUT_HEAD, read_weights
from zoo.cli.command_options import Plot, derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.errors import FAILED_CHECK, BadFile, BadRequest
from zoo.common.options import Option, argument, weights_option
from zoo.common.staging import manifest_path
from zoo.common.terminal import print_stderr

if TYPE_CHECKING:
    from zoo.artifacts.folder_check import AuditReport, Finding
    from zoo.checkpoints.source import WeightsChoice
    from zoo.cli.tables import Block

ONNX = Option("FILE", "An exported file that golden numbers are compared with.")


@derive_options()
def verify(
    target: Annotated[
        Path,
        argument(
            "FILE|DIR",
            "A built or pulled folder, a file in one, a file that `zoo export` wrote, or golden "
            "numbers, NAME.safetensors.",
        ),
    ],
    weights: Annotated[str | None, weights_option("those that the manifest names")] = None,
    take: Annotated[str, TAKE] = "",
    without_head: Annotated[bool, WITHOUT_HEAD] = False,
    base: Annotated[Path | None, ADAPTER_BASE] = None,
    onnx: Annotated[Path | None, ONNX] = None,
    provider: Annotated[
        str, Option("NAME", "ONNX Runtime's provider, such as CUDAExecutionProvider.")
    ] = "CPUExecutionProvider",
    plot: Plot = None,
) -> CommandResult[Any]:
    """Check that a file or a folder agrees with its manifest, and that its outputs are right.

    The files of a folder are compared with the golden numbers in the folder. A file of `zoo export`
    is compared with the model in JAX. Golden numbers, which `zoo golden` writes, are compared with
    the model in JAX whose weights --weights names (within 3e-5), and with the file that --onnx
    names (within 1e-4).
    """
    from zoo.apps.show.save import check_plot

    check_plot(plot)
    if not target.exists():
        raise BadFile(f"{target} does not exist: name a folder or an .onnx file.")
    settings = {"take": take, "without_head": without_head, "base": base}
    choice = read_weights("auto" if weights is None else weights, **settings)
    if target.suffix == ".safetensors" and target.is_file():
        return _verify_golden(target, choice if weights else None, onnx, provider, plot)
    if onnx is not None:
        raise BadRequest(
            f"--onnx {onnx} is compared with golden numbers, and {target} is no file of golden "
            "numbers: leave out --onnx, or name such a file."
        )
    is_export = target.is_file() and manifest_path(target).is_file()
    if weights is not None and not is_export:
        raise BadRequest(
            f"--weights {weights} has no effect on a folder, because its files are compared with "
            "the golden numbers in the folder: leave it out."
        )
    from zoo.export.audit.checks import audit_export, audit_folder, audit_folder_file

    with command_progress() as progress:
        if is_export:
            report = audit_export(target, weights and choice, provider, progress)
        else:
            check = audit_folder if target.is_dir() else audit_folder_file
            report = check(target, provider, progress)
    if plot is not None:
        _draw_errors(report, plot)
    blocks = partial(audit_blocks, exported=target if is_export else None)
    return CommandResult(report, blocks, report_record, 0 if report.passed else FAILED_CHECK)


def _verify_golden(
    file: Path,
    choice: "WeightsChoice | None",
    onnx: Path | None,
    provider: str,
    plot: Path | None,
) -> CommandResult[list[dict[str, Any]]]:
    """Compare golden numbers with a model in JAX, with an ONNX file, or with both.

    **Arguments**

    - `file`: the file of golden numbers.
    - `choice`: the weights of the model in JAX, or None to leave this comparison out.
    - `onnx`: the ONNX file, or None to leave this comparison out.
    - `provider`: the provider of ONNX Runtime.
    - `plot`: the option `--plot`, which is refused here.

    **Raises** `BadRequest` if there is nothing to compare with, or if `plot` is given.
    """
    if plot is not None:
        raise BadRequest(
            f"--plot {plot} draws only the errors of an ONNX file or a folder: leave it out."
        )
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
    if choice is not None:
        with command_progress() as progress:
            loaded = load_named_weights(reference.model, choice, progress)
        rows += golden_errors("JAX", check_jax(reference, loaded), JAX_ATOL)
    if onnx is not None:
        rows += golden_errors("ONNX", check_onnx(reference, onnx, provider), ONNX_ATOL)
    if not rows:
        raise BadRequest(
            "golden numbers were given without anything to compare them with: name a checkpoint "
            "with --weights or a file with --onnx."
        )
    passed = all(row["passed"] for row in rows)
    facts = {"model": reference.model, "reference": reference.reference, "passed": passed}
    title = f"{reference.model} against {reference.reference} ({file.name})"
    return CommandResult(
        rows,
        lambda rows: [difference_table(title, rows)],
        lambda rows: facts | {"comparisons": rows},
        0 if passed else FAILED_CHECK,
    )


def _draw_errors(report: "AuditReport", plot: Path) -> None:
    """Write a chart of the distribution of errors of each file whose outputs were compared.

    If there is no such file, print on stderr why nothing was drawn.
    """
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
        print_stderr(f"{plot} was not drawn: {reason}")
        return
    save_chart(draw_residuals(rows), plot)


def report_record(report: "AuditReport") -> dict[str, Any]:
    """Return the report of a verification as `--json` prints it."""
    file_fields = (vars(file).items() for file in report.variants)
    files = [{key: value for key, value in items if key != "residuals"} for items in file_fields]
    return vars(report) | {"variants": files}


def audit_blocks(report: "AuditReport", exported: Path | None = None) -> "Iterator[Block]":
    """Yield what is printed about a verification: a table of all checks.

    The checks of the folder come first, then those of each file. The names of variants without
    files follow. `exported` is the path of a file of `zoo export`, or None. A table of all its
    outputs is printed before the checks.
    """
    from zoo.artifacts.descriptions import passed_or_failed
    from zoo.cli.tables import Table
    from zoo.cli.tables.export_table import verification_table

    if exported is not None and (verification := report.variants[0].verification):
        yield verification_table(exported, verification)
    files = ((file.name, file.findings) for file in report.variants)
    findings_by_subject = [("folder", report.findings), *files]
    lines = [
        row for subject, findings in findings_by_subject for row in finding_rows(subject, findings)
    ]
    title = f"{report.model}: {passed_or_failed(report.passed)} ({report.provider})"
    yield Table(("~of", "~check", "", "~found"), lines, title)
    if report.absent:
        yield f"missing, and not checked: {', '.join(report.absent)}"


def finding_rows(subject: str, findings: "Sequence[Finding]") -> Iterator[tuple[str, ...]]:
    """Yield a table row for each result of a check: subject, check, `ok` or `FAILED`, and detail.

    `subject` is the name of the file or folder. It stands only in the first row. Unprintable
    characters become `?`.
    """
    for index, finding in enumerate(findings):
        state = "ok" if finding.passed else "FAILED"
        texts = ("" if index else subject, finding.check, state, finding.detail)
        # A damaged file may contain control characters, which the terminal must not execute.
        yield tuple("".join(c if c.isprintable() else "?" for c in text) for text in texts)
