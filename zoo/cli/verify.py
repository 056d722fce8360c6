"""`zoo verify`: is a folder, or a file, still what its manifest says, and still right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weights.progress import Progress
from zoo.cli import options
from zoo.cli.console import print_json, print_result, progress_bar
from zoo.errors import FAILED_CHECK, BadFile, BadRequest
from zoo.files.staging import manifest_path

if TYPE_CHECKING:
    from zoo.artifacts.audit.findings import FolderReport


def verify(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="A built or pulled folder, a file in one, or a file that `zoo export` wrote.",
        ),
    ],
    weights: options.OptionalWeights = None,
    provider: Annotated[
        str, options.value("NAME", "ONNX Runtime's provider, such as CUDAExecutionProvider.")
    ] = "CPUExecutionProvider",
    json: options.Json = False,
) -> int:
    """Check that a file or a folder is what its manifest says, and that its numbers are right.

    A folder is compared with the outputs in it, and a file that `zoo export` wrote with JAX.
    """
    if not target.exists():
        raise BadFile(f"{target} does not exist: give a folder or an .onnx file.")
    if target.is_file() and manifest_path(target).is_file():
        return recheck_export(target, weights, provider, json)
    if weights is not None:
        raise BadRequest(
            f"--weights {weights} has no part in checking a folder, which is compared with its "
            "golden numbers: leave it out."
        )
    from zoo.artifacts.audit.findings import record
    from zoo.cli.tables.audit import show_audit

    with progress_bar() as progress:
        report = audit(target, provider, progress)
    print_result(json, report, show_audit, record)
    return 0 if report.passed else FAILED_CHECK


def audit(target: Path, provider: str, progress: Progress) -> FolderReport:
    """Check a folder, or a file in one."""
    from zoo.artifacts.audit.folder import audit_folder, audit_one, holder

    if target.is_dir():
        return audit_folder(target, provider, progress)
    folder = holder(target)
    if folder is None:
        raise BadFile(
            f"{manifest_path(target)} is missing: `verify` needs the manifest that export wrote "
            "beside a file, or that build wrote in the folder above it."
        )
    return audit_one(folder, target, provider, progress)


def recheck_export(file: Path, weights: str | None, provider: str, json: bool) -> int:
    """Check a file that export wrote, against JAX."""
    from zoo.artifacts.audit.exported import recheck
    from zoo.artifacts.audit.findings import record_export
    from zoo.cli.tables.audit import show_findings
    from zoo.cli.tables.export import show_verification

    with progress_bar() as progress:
        checked = recheck(file, weights, progress, provider)
    if json:
        print_json(record_export(checked.verification, checked.report))
    else:
        show_verification(file, checked.verification)
        show_findings(checked.report)
    return 0 if checked.passed else FAILED_CHECK
