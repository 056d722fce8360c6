"""Print what an export wrote, and how far files differ from JAX or from golden outputs."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.artifacts.measured import Comparison, Verification
from zoo.artifacts.schema import Manifest, Variant
from zoo.artifacts.words import (
    describe_calibration,
    describe_levels,
    describe_limit,
    describe_variant_error,
    describe_weights,
    describe_worst_error,
    format_megabytes,
    passed_or_failed,
)
from zoo.cli.tables import Block, Table, about, counted
from zoo.export.exporter import Outcome
from zoo.export.request import Plan


def export_blocks(plan: Plan, outcome: Outcome) -> Iterator[Block]:
    """What was written and how far it is from JAX; then what could not be fused, and why."""
    manifests = outcome.manifests
    rows = [
        (*_numbers(each), "\n".join(_fused(each.only)), verdict(each.only)) for each in manifests
    ]
    headings = (">opset", ">MB", ">nodes", "fused", "~difference from JAX")
    yield Table(headings, rows, manifests[0].model)
    for target, manifest in zip(plan.targets, manifests, strict=True):
        yield f"{target} was {fate(manifest.only, target.name in outcome.built)}"
        if calibration := manifest.only.calibration:
            yield describe_calibration(calibration)
    yield f"weights: {describe_weights(manifests[0].weights)}"
    missed = (miss for manifest in manifests for miss in manifest.only.near_misses)
    yield from dict.fromkeys(f"not fused: {miss}" for miss in missed)
    checks = (manifest.only.verification for manifest in manifests)
    untaken = (sentence for check in checks if check for sentence in check.untaken)
    yield from dict.fromkeys(f"not verified: {sentence}" for sentence in untaken)


def outcome_blocks(outcomes: Sequence[Outcome]) -> Iterator[Block]:
    """One line a file of many exports, then what is in them, and what could not be made."""
    headings = ("model", ">opset", ">MB", ">nodes", ">fused", ">from JAX", ">s")
    rows = []
    for outcome in outcomes:
        made = [
            (*_numbers(each), sum(each.only.fused.values()), describe_variant_error(each.only))
            for each in outcome.manifests
        ]
        for row in made or [("", "", "", "", "failed")]:
            rows.append((outcome.model, *row, f"{outcome.seconds:.0f}"))
    yield Table(headings, rows, counted(len(outcomes), "model"))
    for outcome in outcomes:
        for manifest in outcome.manifests[:1]:
            fused = f"fused: {', '.join(_fused(manifest.only)) or 'nothing'}"
            yield from about(
                outcome.model, (fused, f"weights: {describe_weights(manifest.weights)}")
            )
    for outcome in outcomes:
        wrong = (f"{name} was not written: it is wrong" for name in outcome.failed)
        yield from about(outcome.model, (*wrong, outcome.error))


def _fused(variant: Variant) -> list[str]:
    return [f"{count} {name}" for name, count in variant.fused.items()]


def _numbers(manifest: Manifest) -> tuple[object, ...]:
    """Opset, megabytes and nodes of a file that was exported alone."""
    variant = manifest.only
    return variant.opset, format_megabytes(manifest, variant), variant.nodes


def fate(variant: Variant, is_published: bool) -> str:
    """Say whether a file was written, and if not, why."""
    if is_published:
        return "written"
    if variant.precision == "fp32":
        return "not written: it is wrong"
    return "not written: it is too far from fp32 (--keep-inexact keeps it)"


def verdict(variant: Variant) -> str:
    """One line a batch and image size: the worst output's largest absolute difference."""
    verification = variant.verification
    if verification is None:
        return "not verified"
    shapes: dict[str, list[Comparison]] = {}
    for comparison in verification.comparisons:
        shape = f"{comparison.batch} x {comparison.size}"
        shapes.setdefault(shape, []).append(comparison)
    lines = [
        f"{describe_worst_error(verification, comparison)} at {shape}"
        for shape, comparison in shapes.items()
    ]
    tried = "" if verification.passed else f", {describe_levels(verification)}"
    return "\n".join(
        [*lines, f"{passed_or_failed(verification.passed)} ({describe_limit(verification)}){tried}"]
    )


def verification_table(file: Path, verification: Verification) -> Table:
    """Every output at every batch size."""
    rows = []
    for comparison in verification.comparisons:
        errors = (
            (comparison.max_abs, ".1e"),
            (comparison.max_rel, ".1e"),
            (comparison.cosine, ".7f"),
        )
        shown = ("" if error is None else f"{error:{style}}" for error, style in errors)
        rows.append(
            (comparison.output, comparison.batch, comparison.size.replace(" x ", "x"), *shown)
        )
    headings = ("~output", ">batch", ">size", ">max abs", ">max rel", ">cosine")
    asked = f"{describe_limit(verification)}, {describe_levels(verification)}"
    title = f"{file.name}: {passed_or_failed(verification.passed)} ({asked})"
    return Table(headings, rows, title)


def golden_errors(where: str, errors: Mapping[str, float], limit: float) -> list[dict[str, Any]]:
    """How far each output is from the reference."""
    # A NaN, which JSON has none of, must fail.
    return [
        {"where": where, "output": name, "max_abs": error if math.isfinite(error) else None}
        | {"limit": limit, "passed": error <= limit}
        for name, error in errors.items()
    ]


def difference_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The same as a table."""
    shown = []
    for row in rows:
        error = "NaN" if row["max_abs"] is None else f"{row['max_abs']:.1e}"
        verdict = "ok" if row["passed"] else "FAILED"
        shown.append((row["where"], row["output"], error, f"{row['limit']:.0e}", verdict))
    return Table(("where", "~output", ">max abs", ">limit", ""), shown, title)
