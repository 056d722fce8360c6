"""Export: produce the files of a plan, and publish each with a manifest beside it."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from weights import Provenance
from weights.progress import Progress
from zoo.artifacts.read import to_text
from zoo.artifacts.schema import File, Manifest
from zoo.common.staging import (
    locked_output,
    manifest_path,
    replace_export,
    write_text,
    writing,
)
from zoo.export.describe import describe_shared
from zoo.export.make import ExportedFile, produce
from zoo.export.publish import Outcome, publish
from zoo.export.request import Plan, check_targets
from zoo.export.subject import Subject


def export_model(
    plan: Plan, subject: Subject, provenance: Callable[[], Provenance], progress: Progress
) -> Outcome:
    """Produce the files of a plan from a network, and publish each with a manifest of its own.

    `provenance` says where the values come from, or raises what is wrong with that. It is called
    when a file is verified, and before it is published.
    """
    manifests: dict[str, Manifest] = {}
    published: dict[str, bool] = {}
    with ExitStack() as stack:
        for target in sorted(plan.targets):
            stack.enter_context(locked_output(target, progress))
            # Somebody else may have made it since the options were checked.
            check_targets(target, plan.options.force)
        production = stack.enter_context(produce(plan, subject, progress))
        for file in production.files(plan.files):
            name = file.spec.name
            manifests[name] = describe_file(plan, file, provenance())
            put = partial(_put, file, manifests[name], plan.folder / name)
            published[name] = publish(file, plan.options.keep_inexact, put)
    names = [file.name for file in plan.files]
    return Outcome(
        plan.model.name,
        [manifests[name] for name in names],
        built=[name for name in names if published[name]],
        failed=[name for name in names if not published[name]],
        nonfinite=tuple(subject.weights.arrays.nonfinite),
    )


def describe_file(plan: Plan, file: ExportedFile, provenance: Provenance) -> Manifest:
    """The manifest of a file that is exported alone."""
    files = tuple(
        File.at(file.path.with_name(name), digest=file.digests.get(name))
        for name in file.variant.files
    )
    empty = describe_shared(plan.model, plan.signature, provenance)
    return empty.changed(files=files, variants={file.spec.variant: file.variant}, complete=True)


def _put(file: ExportedFile, manifest: Manifest, target: Path) -> None:
    with writing(target):
        write_text(manifest_path(file.path), to_text(manifest))
        replace_export(file.path.parent, target)
