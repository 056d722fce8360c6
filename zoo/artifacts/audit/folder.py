"""Checks of a built or pulled folder, or of one file in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from weights.progress import Progress
from zoo import runtime
from zoo.artifacts.audit import golden as goldens
from zoo.artifacts.audit.files import check_listed, check_others, present
from zoo.artifacts.audit.findings import FileReport, Finding, FolderReport
from zoo.artifacts.audit.golden import Golden
from zoo.artifacts.audit.onnx_file import (
    check_fused,
    check_model,
    check_signature,
    elsewhere,
    load,
    read_graph,
)
from zoo.artifacts.build.extras import GOLDEN
from zoo.errors import BadFile
from zoo.manifest.read import read_folder
from zoo.manifest.schema import MANIFEST, Manifest, Variant


def audit_folder(folder: Path, provider: str, progress: Progress) -> FolderReport:
    """Check everything that is there. **Raises** `BadFile` without a sound manifest."""
    runtime.check_provider(provider)
    manifest = read_folder(folder)
    there = present(folder, manifest)
    golden, readable = read_golden(folder)
    findings = [
        _complete(manifest),
        # A pulled folder has the variants that somebody asked for.
        check_listed(folder, manifest.needed(there), progress),
        check_others(folder, manifest),
        readable,
        Finding("variants", bool(there), ", ".join(there) or "not one is there"),
    ]
    return FolderReport(
        folder=str(folder),
        model=manifest.model,
        provider=provider,
        findings=findings,
        files=[
            audit_file(folder, name, manifest.variants[name], golden, provider, progress)
            for name in there
        ],
        absent=[name for name in manifest.variants if name not in there],
    )


def holder(file: Path) -> Path | None:
    """The built folder that a file lies in, if it does."""
    place = file.absolute().parent.parent
    return place if (place / MANIFEST).is_file() else None


def audit_one(folder: Path, file: Path, provider: str, progress: Progress) -> FolderReport:
    """Check one variant. **Raises** `BadFile` if the manifest does not know the file."""
    runtime.check_provider(provider)
    manifest = read_folder(folder)
    place = file.absolute().relative_to(folder).as_posix()
    names = {variant.file: name for name, variant in manifest.variants.items()}
    if place not in names:
        known = ", ".join(names)
        raise BadFile(f"{folder / MANIFEST} does not describe {place}: name one of {known}.")
    variant = manifest.variants[names[place]]
    wanted = {*variant.files, GOLDEN}
    golden, readable = read_golden(folder)
    return FolderReport(
        folder=str(folder),
        model=manifest.model,
        provider=provider,
        findings=[
            check_listed(folder, [i for i in manifest.files if i.name in wanted], progress),
            readable,
        ],
        files=[audit_file(folder, names[place], variant, golden, provider, progress)],
    )


def read_golden(folder: Path) -> tuple[Golden | None, Finding]:
    """The golden numbers, and whether they can be read."""
    try:
        golden = goldens.read(folder)
    except BadFile as error:
        return None, Finding("golden numbers", False, str(error))
    shape = "x".join(map(str, golden.fed.shape))
    return golden, Finding("golden numbers", True, f"{golden.name} {shape}")


def audit_file(
    folder: Path,
    name: str,
    variant: Variant,
    golden: Golden | None,
    provider: str,
    progress: Progress,
) -> FileReport:
    """All checks of one variant."""
    file = folder / variant.file
    progress.stage(f"checking {variant.file}")
    sidecars = [PurePosixPath(part).name for part in variant.files if part != variant.file]
    readable, model = read_graph(file, sidecars)
    findings: list[Finding] = [readable]
    if model is None:
        # Nothing else may read what is damaged, or points elsewhere.
        return FileReport(name, variant.file, findings)
    findings += [check_model(file), check_fused(model, variant.fused)]
    loaded, live = load(file, variant.precision, provider)
    findings.append(loaded)
    if live is None:
        return FileReport(name, variant.file, findings)
    findings.append(check_signature(live, variant.inputs, variant.outputs))
    fallback, others = elsewhere(live, provider)
    findings.append(fallback)
    if golden is None:
        skipped = Finding("golden", False, "there are no golden numbers to compare with")
        return FileReport(name, variant.file, [*findings, skipped], (), others)
    compared, comparisons = goldens.rerun(live, variant, golden)
    return FileReport(name, variant.file, [*findings, compared], comparisons, others)


def _complete(manifest: Manifest) -> Finding:
    told = "complete" if manifest.complete else "the build of this folder was not finished"
    return Finding("manifest", manifest.complete, told)


def failures(report: FolderReport) -> Sequence[str]:
    """One line a failed check."""
    parts = [("folder", report.findings), *((file.name, file.findings) for file in report.files)]
    return [
        f"{place}: {finding.check}: {finding.detail}"
        for place, findings in parts
        for finding in findings
        if not finding.passed
    ]
