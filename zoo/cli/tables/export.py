"""What an export wrote, and how far files are from JAX."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cli.tables import print_table, table
from zoo.manifest.words import limit, megabytes, misses, origin, worst, worst_of

if TYPE_CHECKING:
    from zoo.export.many import Outcome
    from zoo.export.run import Exported
    from zoo.manifest.schema import Comparison, Manifest, Variant, Verification


def show_exports(exports: Sequence[Exported]) -> None:
    """What was written and how far it is from JAX; then what could not be fused, and why."""
    headings = (">opset", ">MB", ">nodes", "fused", "~difference from JAX")
    rows = table(*headings, title=exports[0].manifest.model)
    for export in exports:
        variant = export.manifest.only
        fused = "\n".join(_fused(variant))
        rows.add_row(*_numbers(export.manifest), fused, verdict(variant))
    print_table(rows)
    for line in notes(exports):
        print(line)


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One line a file of many exports, then what is in them, and what could not be made."""
    headings = ("model", ">opset", ">MB", ">nodes", ">fused", ">from JAX", ">s")
    rows = table(*headings, title=f"{len(outcomes)} models")
    for outcome in outcomes:
        seconds = f"{outcome.seconds:.0f}"
        for manifest in outcome.manifests:
            count = str(sum(manifest.only.fused.values()))
            row = (*_numbers(manifest), count, worst_of(manifest.only))
            rows.add_row(outcome.model, *row, seconds)
        if not outcome.manifests:
            rows.add_row(outcome.model, "", "", "", "", "failed", seconds)
    print_table(rows)
    for outcome in outcomes:
        for manifest in outcome.manifests[:1]:
            print(f"{outcome.model}: fused: {', '.join(_fused(manifest.only)) or 'nothing'}")
            print(f"{outcome.model}: weights: {origin(manifest.weights)}")
    for outcome in outcomes:
        wrong = [f"{name} was not written: it is wrong" for name in outcome.failed]
        for line in [*wrong, *([outcome.error] if outcome.error else [])]:
            print(f"{outcome.model}: {line}")


def _fused(variant: Variant) -> list[str]:
    return [f"{count} {name}" for name, count in variant.fused.items()]


def _numbers(manifest: Manifest) -> tuple[str, str, str]:
    """Opset, megabytes and nodes of a file that was exported alone."""
    variant = manifest.only
    return str(variant.opset), megabytes(manifest, variant), str(variant.nodes)


def notes(exports: Sequence[Exported]) -> list[str]:
    """What the table has no room for: places, weights, patterns that were not fused."""
    places = [f"{export.target} was {fate(export)}" for export in exports]
    unfused = [line for export in exports for line in misses(export.manifest.only)]
    return [*places, f"weights: {origin(exports[0].manifest.weights)}", *dict.fromkeys(unfused)]


def fate(export: Exported) -> str:
    """What became of a file."""
    if export.published:
        return "written"
    if export.manifest.only.precision == "fp32":
        return "not written: it is wrong"
    return "not written: it is too far from fp32 (--force keeps it)"


def verdict(variant: Variant) -> str:
    """One line a batch and image size: the worst output's largest absolute difference."""
    verification = variant.verification
    if verification is None:
        return "not verified"
    shapes: dict[str, list[Comparison]] = {}
    for found in verification.comparisons:
        shape = f"{found.batch} x {found.height} x {found.width}"
        shapes.setdefault(shape, []).append(found)
    lines = [f"{worst(verification, found)} at {shape}" for shape, found in shapes.items()]
    state = "passed" if verification.passed else "FAILED"
    return "\n".join([*lines, f"{state} ({limit(verification)})"])


def show_verification(file: Path, verification: Verification) -> None:
    """Every output at every batch size."""
    state = "passed" if verification.passed else "FAILED"
    title = f"{file.name}: {state} ({limit(verification)})"
    rows = table("~output", ">batch", ">size", ">max abs", ">max rel", ">cosine", title=title)
    for found in verification.comparisons:
        errors = (found.max_abs, found.max_rel, found.cosine)
        rows.add_row(
            found.output,
            str(found.batch),
            f"{found.height}x{found.width}",
            *(
                "" if error is None else f"{error:{style}}"
                for error, style in zip(errors, (".1e", ".1e", ".7f"), strict=True)
            ),
        )
    print_table(rows)
