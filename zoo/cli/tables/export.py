"""What an export wrote, and how far files are from JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cli.tables import print_table, table
from zoo.manifest.words import limit, misses, origin, worst

if TYPE_CHECKING:
    from zoo.export.many import Outcome
    from zoo.export.run import Exported
    from zoo.export.verify import Verification


def show_exports(exports: Sequence[Exported]) -> None:
    """What was written and how far it is from JAX; then what could not be fused, and why."""
    rows = table(
        ">opset",
        ">MB",
        ">nodes",
        "fused",
        "~difference from JAX",
        title=exports[0].manifest["model"],
    )
    for export in exports:
        record = export.manifest
        fused = "\n".join(_fused(record))
        rows.add_row(
            str(record["opset"]), _megabytes(record), str(record["nodes"]), fused, verdict(record)
        )
    print_table(rows)
    for line in notes(exports):
        print(line)


def show_outcomes(outcomes: Sequence[Outcome]) -> None:
    """One line a file of many exports, then what is in them, and what could not be made."""
    rows = table(
        "model",
        ">opset",
        ">MB",
        ">nodes",
        ">fused",
        ">from JAX",
        ">s",
        title=f"{len(outcomes)} models",
    )
    for outcome in outcomes:
        for record in outcome.manifests or ({},):
            rows.add_row(outcome.model, *_summary(record), f"{outcome.seconds:.0f}")
    print_table(rows)
    for outcome in outcomes:
        for record in outcome.manifests[:1]:
            print(f"{outcome.model}: fused: {', '.join(_fused(record)) or 'nothing'}")
            print(f"{outcome.model}: weights: {origin(record['weights'])}")
    for outcome in outcomes:
        wrong = [f"{path} was not written: it is wrong" for path in outcome.failed]
        for line in [*wrong, *([outcome.error] if outcome.error else [])]:
            print(f"{outcome.model}: {line}")


def _fused(record: Mapping[str, Any]) -> list[str]:
    return [f"{count} {name}" for name, count in record["fused"].items()]


def _megabytes(record: Mapping[str, Any]) -> str:
    return f"{sum(file['bytes'] for file in record['files']) / 1e6:.1f}"


def _summary(record: Mapping[str, Any]) -> tuple[str, ...]:
    """Opset, size, nodes, fused operators and largest difference of a manifest; empty of none."""
    if not record:
        return ("", "", "", "", "failed")
    verification = record["verification"]
    verdict = "not verified"
    if verification is not None:
        verdict = worst(verification, verification["comparisons"])
    numbers = (record["nodes"], sum(record["fused"].values()))
    return str(record["opset"]), _megabytes(record), *map(str, numbers), verdict


def notes(exports: Sequence[Exported]) -> list[str]:
    """What the table has no room for: places, weights, patterns that were not fused."""
    places = [f"{export.target} was {fate(export)}" for export in exports]
    unfused = [line for export in exports for line in misses(export.manifest)]
    return [*places, f"weights: {origin(exports[0].manifest['weights'])}", *dict.fromkeys(unfused)]


def fate(export: Exported) -> str:
    """What became of a file."""
    if export.published:
        return "written"
    if export.manifest["precision"] == "float32":
        return "not written: it is wrong"
    return "not written: it is too far from fp32 (--force keeps it)"


def verdict(record: Mapping[str, Any]) -> str:
    """One line a batch and image size: the worst output's largest absolute difference."""
    verification = record["verification"]
    if verification is None:
        return "not verified"
    shapes: dict[str, list[Mapping[str, Any]]] = {}
    for comparison in verification["comparisons"]:
        shape = "{batch} x {height} x {width}".format(**comparison)
        shapes.setdefault(shape, []).append(comparison)
    lines = [f"{worst(verification, found)} at {shape}" for shape, found in shapes.items()]
    state = "passed" if verification["passed"] else "FAILED"
    return "\n".join([*lines, f"{state} ({limit(verification)})"])


def show_verification(file: Path, verification: Verification) -> None:
    """Every output at every batch size."""
    state = "passed" if verification.passed else "FAILED"
    title = f"{file.name}: {state} ({limit(asdict(verification))})"
    rows = table("~output", ">batch", ">size", ">max abs", ">max rel", ">cosine", title=title)
    for comparison in verification.comparisons:
        errors = (comparison.max_abs, comparison.max_rel)
        rows.add_row(
            comparison.output,
            str(comparison.batch),
            f"{comparison.height}x{comparison.width}",
            *(f"{error:.1e}" for error in errors),
            f"{comparison.cosine:.7f}",
        )
    print_table(rows)
