"""Tables of the results of an export, with the differences from JAX and from golden numbers."""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.artifacts.descriptions import (
    describe_calibration,
    describe_levels,
    describe_limit,
    describe_variant_error,
    describe_weights,
    describe_worst_error,
    format_megabytes,
    passed_or_failed,
)
from zoo.artifacts.measured import Comparison, Verification
from zoo.artifacts.schema import Manifest, Variant
from zoo.cli.tables import Block, Table, count_noun, prefix_lines
from zoo.export.exporter import Outcome
from zoo.export.request import Plan


def export_blocks(plan: Plan, outcome: Outcome) -> Iterator[Block]:
    """Yield what is printed about the export of one model.

    This is a table of the files and their differences from JAX, then the paths, the weights, the
    near misses, and the branches that the verification did not reach.
    """
    manifests = outcome.manifests
    rows = [
        (
            *_file_sizes(manifest),
            "\n".join(_fused_operators(manifest.only_variant)),
            describe_verification(manifest.only_variant),
        )
        for manifest in manifests
    ]
    headings = (">opset", ">MB", ">nodes", "fused", "~difference from JAX")
    yield Table(headings, rows, manifests[0].model)
    for target, manifest in zip(plan.targets, manifests, strict=True):
        yield (
            f"{target} was {describe_outcome(manifest.only_variant, target.name in outcome.built)}"
        )
        if calibration := manifest.only_variant.calibration:
            yield describe_calibration(calibration)
    yield f"weights: {describe_weights(manifests[0].weights)}"
    missed = (miss for manifest in manifests for miss in manifest.only_variant.near_misses)
    yield from dict.fromkeys(f"not fused: {miss}" for miss in missed)
    checks = (manifest.only_variant.verification for manifest in manifests)
    untaken = (sentence for check in checks if check for sentence in check.untaken)
    yield from dict.fromkeys(f"not verified: {sentence}" for sentence in untaken)


def outcome_blocks(outcomes: Sequence[Outcome]) -> Iterator[Block]:
    """Yield what is printed about the exports of several models.

    This is a table with a row for each file, then the fused operators, the weights and the errors.
    """
    headings = ("model", ">opset", ">MB", ">nodes", ">fused", ">from JAX", ">s")
    rows = []
    for outcome in outcomes:
        files = [
            (
                *_file_sizes(manifest),
                sum(manifest.only_variant.fused.values()),
                describe_variant_error(manifest.only_variant),
            )
            for manifest in outcome.manifests
        ]
        for row in files or [("", "", "", "", "failed")]:
            rows.append((outcome.model, *row, f"{outcome.seconds:.0f}"))
    yield Table(headings, rows, count_noun(len(outcomes), "model"))
    for outcome in outcomes:
        for manifest in outcome.manifests[:1]:
            fused = f"fused: {', '.join(_fused_operators(manifest.only_variant)) or 'nothing'}"
            yield from prefix_lines(
                outcome.model, (fused, f"weights: {describe_weights(manifest.weights)}")
            )
    for outcome in outcomes:
        failures = (f"{name} was not written: it is wrong" for name in outcome.failed)
        yield from prefix_lines(outcome.model, (*failures, outcome.error))


def _fused_operators(variant: Variant) -> list[str]:
    """Return the fused operators of a file with their numbers, such as `12 Attention`."""
    return [f"{count} {name}" for name, count in variant.fused.items()]


def _file_sizes(manifest: Manifest) -> tuple[object, ...]:
    """Return the opset, the megabytes and the number of nodes of a single exported file."""
    variant = manifest.only_variant
    return variant.opset, format_megabytes(manifest, variant), variant.nodes


def describe_outcome(variant: Variant, is_published: bool) -> str:
    """Return "written", or why a file was not written.

    `is_published` says whether the file was moved to its path.
    """
    if is_published:
        return "written"
    if variant.precision == "fp32":
        return "not written: it is wrong"
    return "not written: it is too far from fp32 (--keep-inexact keeps it)"


def describe_verification(variant: Variant) -> str:
    """Return the differences of a file from JAX in words, or `not verified`.

    There is a line for each batch and image size with the largest difference, and a line with the
    verdict and the limit.
    """
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
    levels = "" if verification.passed else f", {describe_levels(verification)}"
    return "\n".join(
        [
            *lines,
            f"{passed_or_failed(verification.passed)} ({describe_limit(verification)}){levels}",
        ]
    )


def verification_table(file: Path, verification: Verification) -> Table:
    """Return a table of the differences from JAX of every output at every batch and size."""
    rows = []
    for comparison in verification.comparisons:
        errors = (
            (comparison.max_abs, ".1e"),
            (comparison.max_rel, ".1e"),
            (comparison.cosine, ".7f"),
        )
        cells = ("" if error is None else f"{error:{style}}" for error, style in errors)
        rows.append(
            (comparison.output, comparison.batch, comparison.size.replace(" x ", "x"), *cells)
        )
    headings = ("~output", ">batch", ">size", ">max abs", ">max rel", ">cosine")
    terms = f"{describe_limit(verification)}, {describe_levels(verification)}"
    title = f"{file.name}: {passed_or_failed(verification.passed)} ({terms})"
    return Table(headings, rows, title)


def golden_errors(side: str, errors: Mapping[str, float], limit: float) -> list[dict[str, Any]]:
    """Return a record for each output: its difference from the golden numbers, and the limit.

    A difference that is NaN or infinite is None in the record, and does not pass.

    **Arguments**

    - `side`: what was compared with the golden numbers: `JAX` or `ONNX`.
    - `errors`: the largest absolute difference of each output, by name.
    - `limit`: the largest allowed difference.
    """
    # A NaN fails. It is written as null, because JSON has no NaN.
    return [
        {"where": side, "output": name, "max_abs": error if math.isfinite(error) else None}
        | {"limit": limit, "passed": error <= limit}
        for name, error in errors.items()
    ]


def difference_table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return a table with the largest absolute difference of each output from the golden numbers.

    **Arguments:**

    - `title`: the title of the table.
    - `rows`: records of `golden_errors`. Each becomes a row: what was compared, the output, its
      difference, the limit, and `ok` or `FAILED`. A difference of None is shown as `NaN`.
    """
    cells = []
    for row in rows:
        error = "NaN" if row["max_abs"] is None else f"{row['max_abs']:.1e}"
        state = "ok" if row["passed"] else "FAILED"
        cells.append((row["where"], row["output"], error, f"{row['limit']:.0e}", state))
    return Table(("where", "~output", ">max abs", ">limit", ""), cells, title)
