"""Checks of a built or pulled folder, or of one file in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from weights.progress import Progress
from zoo import runtime
from zoo.artifacts.audit import golden as goldens
from zoo.artifacts.audit import manifest
from zoo.artifacts.audit.files import check_listed, check_others, present
from zoo.artifacts.audit.findings import FileReport, Finding, FolderReport
from zoo.artifacts.audit.golden import Golden
from zoo.artifacts.audit.manifest import Folder, Variant
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
from zoo.manifest.schema import MANIFEST


def audit_folder(folder: Path, provider: str, progress: Progress) -> FolderReport:
    """Check everything that is there. **Raises** `BadFile` without a sound manifest."""
    runtime.check_provider(provider)
    content = manifest.read(folder)
    there = present(folder, content)
    absent = [variant for variant in content.variants if variant.name not in there]
    # A pulled folder has the variants that somebody asked for.
    excused = {name for variant in absent for name in variant.files}
    listed = [item for item in content.files if item.name not in excused]
    golden, readable = read_golden(folder)
    findings = [
        _complete(content),
        check_listed(folder, listed, progress),
        check_others(folder, content),
        readable,
        Finding("variants", bool(there), ", ".join(there) or "not one is there"),
    ]
    variants = [variant for variant in content.variants if variant.name in there]
    return FolderReport(
        folder=str(folder),
        model=content.model,
        provider=provider,
        findings=findings,
        files=[audit_file(folder, each, golden, provider, progress) for each in variants],
        absent=[variant.name for variant in absent],
    )


def holder(file: Path) -> Path | None:
    """The built folder that a file lies in, if it does."""
    place = file.absolute().parent.parent
    return place if (place / MANIFEST).is_file() else None


def audit_one(folder: Path, file: Path, provider: str, progress: Progress) -> FolderReport:
    """Check one variant. **Raises** `BadFile` if the manifest does not know the file."""
    runtime.check_provider(provider)
    content = manifest.read(folder)
    name = file.absolute().relative_to(folder).as_posix()
    variant = next((each for each in content.variants if each.file == name), None)
    if variant is None:
        known = ", ".join(each.file for each in content.variants)
        raise BadFile(f"{folder / MANIFEST} does not describe {name}: name one of {known}.")
    wanted = {*variant.files, GOLDEN}
    golden, readable = read_golden(folder)
    return FolderReport(
        folder=str(folder),
        model=content.model,
        provider=provider,
        findings=[
            check_listed(folder, [i for i in content.files if i.name in wanted], progress),
            readable,
        ],
        files=[audit_file(folder, variant, golden, provider, progress)],
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
    folder: Path, variant: Variant, golden: Golden | None, provider: str, progress: Progress
) -> FileReport:
    """All checks of one variant."""
    file = folder / variant.file
    progress.stage(f"checking {variant.file}")
    sidecars = [PurePosixPath(name).name for name in variant.files if name != variant.file]
    readable, model = read_graph(file, sidecars)
    findings: list[Finding] = [readable]
    if model is None:
        # Nothing else may read what is damaged, or points elsewhere.
        return FileReport(variant.name, variant.file, findings)
    findings += [check_model(file), check_fused(model, variant.fused)]
    loaded, live = load(file, variant.precision, provider)
    findings.append(loaded)
    if live is None:
        return FileReport(variant.name, variant.file, findings)
    findings.append(check_signature(live, variant.inputs, variant.outputs))
    fallback, others = elsewhere(live, provider)
    findings.append(fallback)
    if golden is None:
        skipped = Finding("golden", False, "there are no golden numbers to compare with")
        return FileReport(variant.name, variant.file, [*findings, skipped], (), others)
    compared, comparisons = goldens.rerun(live, variant, golden)
    return FileReport(variant.name, variant.file, [*findings, compared], comparisons, others)


def _complete(content: Folder) -> Finding:
    told = "complete" if content.complete else "the build of this folder was not finished"
    return Finding("manifest", content.complete, told)


def failures(report: FolderReport) -> Sequence[str]:
    """One line a failed check."""
    parts = [("folder", report.findings), *((file.name, file.findings) for file in report.files)]
    return [
        f"{place}: {finding.check}: {finding.detail}"
        for place, findings in parts
        for finding in findings
        if not finding.passed
    ]
