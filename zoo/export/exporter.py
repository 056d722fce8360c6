"""Export a model: produce the files of a plan, and publish each with its manifest."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from weights import Provenance
from weights.progress import Progress
from zoo.artifacts.read import to_text
from zoo.artifacts.schema import File, Manifest
from zoo.common.errors import FAILED_CHECK, WRONG_USE
from zoo.common.staging import (
    check_output_path,
    locked_output,
    manifest_path,
    replace_export,
    translate_write_errors,
    write_text,
)
from zoo.export.describe import make_shared_manifest
from zoo.export.make import ExportedFile, open_production
from zoo.export.request import Plan
from zoo.export.subject import Subject


@dataclass(frozen=True)
class Outcome:
    """Result of the export or build of one model.

    Arguments:
        model: name of the model.
        manifests: manifests of the files, also of those that failed their verification, or the
            manifest of the folder that was built.
        built: names of the files, or of a folder's variants, that were published.
        already_there: names of files or variants that existed already and were kept.
        failed: names of files or variants that failed their verification and were not published.
        error: message if the work failed, or None otherwise.
        seconds: duration of the work.
        nonfinite: paths of parameters that contain NaN or infinity.
    """

    model: str
    manifests: Sequence[Manifest] = ()
    built: Sequence[str] = ()
    already_there: Sequence[str] = ()
    failed: Sequence[str] = ()
    error: str | None = None
    seconds: float = 0.0
    nonfinite: Sequence[str] = ()

    @property
    def exit_code(self) -> int:
        """Exit code of the command line: 0 if all succeeded, `WRONG_USE` after an error,
        `FAILED_CHECK` if a file failed its verification."""
        if self.error is not None:
            return WRONG_USE
        return FAILED_CHECK if self.failed else 0

    @property
    def record(self) -> dict[str, Any]:
        """Fields of the outcome for JSON, without `nonfinite`."""
        return {name: value for name, value in vars(self).items() if name != "nonfinite"}


def export_model(
    plan: Plan, subject: Subject, provenance: Callable[[], Provenance], progress: Progress
) -> Outcome:
    """Write and verify the files of a plan, and publish each with its own manifest.

    A file that fails its verification is not published, unless the plan accepts inexact files of
    low precision. A published file replaces an earlier one. The outcome has the manifests of all
    files in the order of the plan, also of those that failed.

    **Arguments:**

    - `plan`: the files to write.
    - `subject`: the model and its weights.
    - `provenance`: function that returns the origin of the weights, or raises an error if they are
      not those of the model. It is called after a file is verified and before it is published.
    - `progress`: reports progress.

    **Raises** `BadOutput` if a file cannot be written or appeared in the meantime, and the errors
    of `provenance`.
    """
    manifests: dict[str, Manifest] = {}
    published: dict[str, bool] = {}
    with ExitStack() as stack:
        for target in sorted(plan.targets):
            stack.enter_context(locked_output(target, progress))
            # Another process may have written the file since the options were checked.
            check_output_path(target, plan.options.force)
        production = stack.enter_context(open_production(plan, subject, progress))
        for file in production.write_and_verify(plan.files):
            name = file.spec.name
            manifests[name] = make_file_manifest(plan, file, provenance())
            move = partial(_move_to_target, file, manifests[name], plan.folder / name)
            published[name] = file.publish(plan.options.keep_inexact, move)
    names = [file.name for file in plan.files]
    return Outcome(
        plan.model.name,
        [manifests[name] for name in names],
        built=[name for name in names if published[name]],
        failed=[name for name in names if not published[name]],
        nonfinite=tuple(subject.weights.arrays.nonfinite),
    )


def make_file_manifest(plan: Plan, file: ExportedFile, provenance: Provenance) -> Manifest:
    """Return the manifest of a file that is exported alone, not in a folder with other variants."""
    files = tuple(
        File.at(file.path.with_name(name), digest=file.digests.get(name))
        for name in file.variant.files
    )
    header = make_shared_manifest(plan.model, plan.signature, provenance)
    return header.with_changes(
        files=files, variants={file.spec.variant: file.variant}, complete=True
    )


def _move_to_target(file: ExportedFile, manifest: Manifest, target: Path) -> None:
    """Write the manifest beside the staged file, and move both and the sidecar to the path
    `target`.

    Earlier files there are replaced. **Raises** `BadOutput` if they cannot be written.
    """
    with translate_write_errors(target):
        write_text(manifest_path(file.path), to_text(manifest))
        replace_export(file.path.parent, target)
