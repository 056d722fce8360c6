"""`zoo verify`: a folder, or a file, against its manifest and the numbers that it should give."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath

from weights.progress import Progress
from zoo.artifacts.folder_check import (
    AuditReport,
    FileReport,
    Finding,
    check_unlisted_files,
    find_present_variants,
    find_wrong_files,
    summarize_files,
)
from zoo.artifacts.read import read_folder_manifest, read_manifest
from zoo.artifacts.schema import MANIFEST, Manifest, Variant
from zoo.checkpoints.source import Choice
from zoo.common import runtime
from zoo.common.errors import BadFile
from zoo.common.staging import manifest_path
from zoo.export.assemble.extras import GOLDEN
from zoo.export.audit import golden_check, jax
from zoo.export.audit.golden_check import Compare
from zoo.export.audit.onnx_file import (
    check_fused,
    check_model,
    check_signature,
    elsewhere,
    newer_runtime,
    open_model,
    read_graph,
)


def audit_folder(folder: Path, provider: str, progress: Progress) -> AuditReport:
    """Check everything that is in a folder. **Raises** `BadFile` without a sound manifest."""
    runtime.check_provider(provider)
    manifest = read_folder_manifest(folder)
    there = find_present_variants(folder, manifest)
    items = manifest.needed(there)
    wrong = find_wrong_files(folder, items, progress)
    readable, compare = golden_check.compare_golden(folder, manifest)
    state = "complete" if manifest.complete else "the build of this folder was not finished"
    findings = [
        Finding("manifest", manifest.complete, state),
        # A pulled folder has the variants that somebody asked for.
        summarize_files(items, wrong),
        check_unlisted_files(folder, manifest),
        readable,
        Finding("variants", bool(there), ", ".join(there) or "not one is there"),
    ]
    report = _report(folder, manifest, findings, there, wrong, compare, provider, progress)
    return replace(report, absent=[name for name in manifest.variants if name not in there])


def audit_one(file: Path, provider: str, progress: Progress) -> AuditReport:
    """Check one file of a built folder. **Raises** `BadFile` if no manifest knows it."""
    runtime.check_provider(provider)
    folder = file.absolute().parent.parent
    if not (folder / MANIFEST).is_file():
        raise BadFile(
            f"{manifest_path(file)} is missing: `verify` needs the manifest that export wrote "
            "beside a file, or that build wrote in the folder above it."
        )
    manifest = read_folder_manifest(folder)
    name = _find(manifest, file.absolute().relative_to(folder).as_posix())
    names = {*manifest.variants[name].files, GOLDEN}
    items = [item for item in manifest.files if item.name in names]
    wrong = find_wrong_files(folder, items, progress)
    readable, compare = golden_check.compare_golden(folder, manifest)
    findings = [summarize_files(items, wrong), readable]
    return _report(folder, manifest, findings, [name], wrong, compare, provider, progress)


def audit_export(
    file: Path, weights: str | Choice | None, provider: str, progress: Progress
) -> AuditReport:
    """Check a file that was exported alone, against JAX. **Raises** as loading the weights does.

    `weights` are those that the file was made from; by default, what the manifest names.
    """
    runtime.check_provider(provider)
    manifest = read_manifest(manifest_path(file))
    name = _find(manifest, file.name)
    wrong = find_wrong_files(file.parent, manifest.files, progress)
    listed = summarize_files(manifest.files, wrong)
    if listed.passed:
        compare = jax.compare_with_jax(file, manifest, weights, provider, progress)
    else:
        compare = jax.skip(False, "this is not the file that was exported")
    return _report(file.parent, manifest, [listed], [name], wrong, compare, provider, progress)


def _find(manifest: Manifest, file: str) -> str:
    """The variant that a file is."""
    names = {variant.file: name for name, variant in manifest.variants.items()}
    if file not in names:
        raise BadFile(
            f"the manifest of {file} describes {', '.join(names)}: name one of those, and keep "
            "the names that export and build give."
        )
    return names[file]


def _report(
    folder: Path,
    manifest: Manifest,
    findings: list[Finding],
    names: list[str],
    wrong: Mapping[str, str],
    compare: Compare,
    provider: str,
    progress: Progress,
) -> AuditReport:
    files = []
    for name in names:
        variant = manifest.variants[name]
        if wrong.keys().isdisjoint(variant.files):
            files.append(audit_file(folder, name, variant, compare, provider, progress))
        else:  # nothing of it is read or run
            unread = Finding("graph", False, "not read: its files are not those of the manifest")
            files.append(FileReport(name, variant.file, False, [unread]))
    passed = all(f.passed for f in findings) and all(f.passed for f in files)
    return AuditReport(str(folder), manifest.model, provider, passed, findings, files)


def audit_file(
    folder: Path, name: str, variant: Variant, compare: Compare, provider: str, progress: Progress
) -> FileReport:
    """All checks of one variant."""
    progress.stage(f"checking {variant.file}")
    file, live, others, judged = folder / variant.file, None, None, None
    sidecars = [PurePosixPath(part).name for part in variant.files if part != variant.file]
    readable, model = read_graph(file, sidecars)
    findings = [readable]
    # Nothing else may read what is damaged, or points elsewhere.
    if model is not None:
        loaded, live = open_model(file, variant.precision, provider)
        findings += [check_model(file), check_fused(model, variant.fused)]
        findings += [*newer_runtime(variant.minimum_runtime, loaded.passed), loaded]
    if live is not None:
        fallback, others = elsewhere(live, provider)
        judged = compare(live, variant)
        signature = check_signature(live, variant.inputs, variant.outputs)
        findings += [signature, fallback, judged.finding]
    passed = all(each.passed for each in findings)
    verification, residuals = (judged.verification, judged.residuals) if judged else (None, None)
    return FileReport(name, variant.file, passed, findings, verification, others, residuals)
