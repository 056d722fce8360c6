"""`zoo verify`: is a folder, or a file, still what its manifest says, and still right?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weights.progress import Progress
from zoo.cli.console import FAILED_CHECK, progress_bar
from zoo.errors import BadFile, BadRequest
from zoo.files.staging import manifest_path

if TYPE_CHECKING:
    from zoo.artifacts.audit.findings import FolderReport


def verify(
    target: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR",
            help="A folder that build wrote, an .onnx file in one, or one that export wrote.",
        ),
    ],
    weights: Annotated[
        str | None,
        typer.Option(
            metavar="auto|random[:SEED]|PATH",
            help="Of a file that export wrote, if not where they usually lie.",
        ),
    ] = None,
    provider: Annotated[
        str, typer.Option(metavar="NAME", help="ONNX Runtime's, such as CUDAExecutionProvider.")
    ] = "CPUExecutionProvider",
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON and nothing else.")
    ] = False,
) -> int:
    """Check files, digests, graphs and numbers: of a folder by its golden ones, else by JAX."""
    if not target.exists():
        raise BadFile(f"{target} does not exist: give a folder or an .onnx file.")
    if target.is_file() and manifest_path(target).is_file():
        return recheck_export(target, weights, provider, json)
    if weights is not None:
        raise BadRequest(
            f"--weights {weights} has no part in checking a folder, which is compared with its "
            "golden numbers: leave it out."
        )
    with progress_bar() as progress:
        report = audit(target, provider, progress)
    if json:
        from zoo.artifacts.audit.findings import record
        from zoo.manifest.text import to_text

        print(to_text(record(report)), end="")
    else:
        from zoo.cli.tables.audit import show_audit

        show_audit(report)
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

    with progress_bar() as progress:
        checked = recheck(file, weights, progress, provider)
    if json:
        from zoo.artifacts.audit.findings import record_export
        from zoo.manifest.text import to_text

        print(to_text(record_export(checked.verification, checked.report)), end="")
    else:
        from zoo.cli.tables.audit import show_findings
        from zoo.cli.tables.results import show_verification

        show_verification(file, checked.verification)
        show_findings(checked.report)
    return 0 if checked.passed else FAILED_CHECK
