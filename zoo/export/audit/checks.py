"""Audit a folder or a file: compare it with its manifest, and its outputs with the expected numbers
(`zoo verify`)."""

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
from zoo.checkpoints.source import WeightsChoice
from zoo.common import runtime
from zoo.common.errors import BadFile
from zoo.common.staging import manifest_path
from zoo.export.assemble.extras import GOLDEN
from zoo.export.audit import golden_check, jax
from zoo.export.audit.golden_check import CompareSession
from zoo.export.audit.onnx_file import (
    check_fused,
    check_model,
    check_signature,
    count_fallback_nodes,
    open_model,
    read_graph,
    warn_about_runtime,
)


def audit_folder(folder: Path, provider: str, progress: Progress) -> AuditReport:
    """Check all files of a built folder, and return the report.

    The files are compared with the manifest, and their outputs on the execution provider `provider`
    with the folder's golden numbers. A variant without files is listed as absent and is no failure.
    **Raises** `BadFile` if the folder has no valid manifest, and `BadRequest` if the provider is
    not available.
    """
    runtime.check_provider(provider)
    manifest = read_folder_manifest(folder)
    variant_names = find_present_variants(folder, manifest)
    listed_files = manifest.select_files(variant_names)
    faults = find_wrong_files(folder, listed_files, progress)
    golden_finding, compare = golden_check.compare_golden(folder, manifest)
    state = "complete" if manifest.complete else "the build of this folder was not finished"
    findings = [
        Finding("manifest", manifest.complete, state),
        # A pulled folder may have some of the variants only.
        summarize_files(listed_files, faults),
        check_unlisted_files(folder, manifest),
        golden_finding,
        Finding("variants", bool(variant_names), ", ".join(variant_names) or "not one is there"),
    ]
    report = _audit_files(
        folder, manifest, findings, variant_names, faults, compare, provider, progress
    )
    return replace(report, absent=[name for name in manifest.variants if name not in variant_names])


def audit_folder_file(file: Path, provider: str, progress: Progress) -> AuditReport:
    """Check one file of a built folder, and return the report.

    The built folder is the parent of the file's folder. The file is compared with its manifest, and
    with its golden numbers. **Raises** `BadFile` if there is no manifest or it does not describe
    the file, and `BadRequest` if the execution provider is not available.
    """
    runtime.check_provider(provider)
    folder = file.absolute().parent.parent
    if not (folder / MANIFEST).is_file():
        raise BadFile(
            f"{manifest_path(file)} is missing: `verify` needs the manifest that export wrote "
            "beside a file, or that build wrote in the folder above it."
        )
    manifest = read_folder_manifest(folder)
    name = _find_variant(manifest, file.absolute().relative_to(folder).as_posix())
    names = {*manifest.variants[name].files, GOLDEN}
    listed_files = [item for item in manifest.files if item.name in names]
    faults = find_wrong_files(folder, listed_files, progress)
    golden_finding, compare = golden_check.compare_golden(folder, manifest)
    findings = [summarize_files(listed_files, faults), golden_finding]
    return _audit_files(folder, manifest, findings, [name], faults, compare, provider, progress)


def audit_export(
    file: Path, weights: str | WeightsChoice | None, provider: str, progress: Progress
) -> AuditReport:
    """Check a file that was exported alone, and return the report.

    The file is compared with the manifest beside it, and its outputs with the model in JAX. If the
    file is damaged, its outputs are not compared.

    **Arguments:**

    - `file`: the ONNX file.
    - `weights`: the weights that the file was made from, or None for those that the manifest names.
    - `provider`: execution provider of ONNX Runtime.
    - `progress`: reports progress.

    **Raises** `BadFile` if there is no valid manifest, if it does not describe the file, or if the
    weights are others. Raises `BadRequest` if the provider is not available, and the errors of
    loading the weights.
    """
    runtime.check_provider(provider)
    manifest = read_manifest(manifest_path(file))
    name = _find_variant(manifest, file.name)
    faults = find_wrong_files(file.parent, manifest.files, progress)
    files_finding = summarize_files(manifest.files, faults)
    if files_finding.passed:
        compare = jax.compare_with_jax(file, manifest, weights, provider, progress)
    else:
        compare = jax.skip_comparison(False, "this is not the file that was exported")
    return _audit_files(
        file.parent, manifest, [files_finding], [name], faults, compare, provider, progress
    )


def _find_variant(manifest: Manifest, file: str) -> str:
    """Return the name of the variant in the manifest that has the ONNX file `file`.

    `file` is the path in the manifest. **Raises** `BadFile` if no variant has this file.
    """
    names = {variant.file: name for name, variant in manifest.variants.items()}
    if file not in names:
        raise BadFile(
            f"the manifest of {file} describes {', '.join(names)}: name one of those, and keep "
            "the names that export and build give."
        )
    return names[file]


def _audit_files(
    folder: Path,
    manifest: Manifest,
    findings: list[Finding],
    names: list[str],
    faults: Mapping[str, str],
    compare: CompareSession,
    provider: str,
    progress: Progress,
) -> AuditReport:
    """Check the files of the variants `names`, and return the report with all findings.

    **Arguments:**

    - `findings`: findings about the folder, which go into the report.
    - `faults`: faults by the name of a file. A variant with a faulty file fails without being
      opened.
    - `compare`: function that compares a session with the expected numbers.
    """
    reports = []
    for name in names:
        variant = manifest.variants[name]
        if faults.keys().isdisjoint(variant.files):
            reports.append(audit_variant(folder, name, variant, compare, provider, progress))
        else:
            unread = Finding("graph", False, "not read: its files are not those of the manifest")
            reports.append(FileReport(name, variant.file, False, [unread]))
    passed = all(f.passed for f in findings) and all(f.passed for f in reports)
    return AuditReport(str(folder), manifest.model, provider, passed, findings, reports)


def audit_variant(
    folder: Path,
    name: str,
    variant: Variant,
    compare: CompareSession,
    provider: str,
    progress: Progress,
) -> FileReport:
    """Run all checks of one variant, and return their results.

    A file that cannot be read, or that refers to files other than its sidecar, is not run.

    **Arguments:**

    - `folder`: folder of the file.
    - `name`: name of the variant.
    - `variant`: the manifest's record of the file.
    - `compare`: function that compares a session with the expected numbers.
    - `provider`: execution provider of ONNX Runtime.
    - `progress`: reports progress.
    """
    progress.stage(f"checking {variant.file}")
    file, session, other_providers, numbers = folder / variant.file, None, None, None
    sidecars = [PurePosixPath(part).name for part in variant.files if part != variant.file]
    readable, model = read_graph(file, sidecars)
    findings = [readable]
    # A file that is damaged or refers to other files is not opened by anything else.
    if model is not None:
        loaded, session = open_model(file, variant.precision, provider)
        findings += [check_model(file), check_fused(model, variant.fused)]
        findings += [*warn_about_runtime(variant.minimum_runtime, loaded.passed), loaded]
    if session is not None:
        fallback, other_providers = count_fallback_nodes(session, provider)
        numbers = compare(session, variant)
        signature = check_signature(session, variant.inputs, variant.outputs)
        findings += [signature, fallback, numbers.finding]
    passed = all(finding.passed for finding in findings)
    verification, residuals = (numbers.verification, numbers.residuals) if numbers else (None, None)
    return FileReport(
        name, variant.file, passed, findings, verification, other_providers, residuals
    )
