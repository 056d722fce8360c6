"""Compare ONNX files with the golden numbers of a folder: one input, with the outputs of the
network in JAX."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

import converter
from zoo.architectures.inputs import Input, Kind, find_kinds, read_feed_sides
from zoo.artifacts.descriptions import describe_levels, describe_limit, describe_worst_error
from zoo.artifacts.folder_check import Finding, NumbersCheck, Residuals, compute_residuals
from zoo.artifacts.measured import Verification
from zoo.artifacts.read import entry_of_manifest
from zoo.artifacts.schema import Manifest, Variant
from zoo.common import runtime
from zoo.common.errors import BadFile, first_line
from zoo.common.golden_file import Golden, read_golden
from zoo.export.assemble.extras import GOLDEN
from zoo.export.precisions import PRECISIONS
from zoo.export.verify import judge_comparisons, to_comparison, to_runnable
from zoo.tasks.answer import normalize_vectors

TOWER_OUTPUTS: dict[Kind, str] = {"picture": "image_embeds", "text": "text_embeds"}
"""Names of a tower's vectors among the outputs of the full network, by the kind of input that the
tower takes."""

CompareSession: TypeAlias = Callable[[runtime.Session, Variant], NumbersCheck]
"""Function that compares the outputs of a session, for a variant's file, with expected numbers."""


def compare_golden(folder: Path, manifest: Manifest) -> tuple[Finding, CompareSession]:
    """Read the golden numbers of a folder, and return a finding about them and the function that
    compares a session with them.

    If the numbers cannot be read, the finding fails, and so does every comparison of the function.
    """
    try:
        golden = read_golden(folder / GOLDEN)
    except BadFile as error:
        no_numbers = Finding("golden", False, "there are no golden numbers to compare with")
        return Finding("golden numbers", False, str(error)), lambda session, variant: NumbersCheck(
            no_numbers
        )
    shapes = {name: "x".join(map(str, value.shape)) for name, value in golden.feeds.items()}
    shapes_listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return Finding("golden numbers", True, shapes_listed), partial(
        _compare_all_levels, folder, golden, manifest
    )


def _compare_all_levels(
    folder: Path, golden: Golden, manifest: Manifest, session: runtime.Session, variant: Variant
) -> NumbersCheck:
    """Compare a file with golden numbers, twice in `session` and once at each lower optimization
    level of ONNX Runtime.

    **Returns** the first result that failed. If all passed, it is the first result of `session`.
    """
    first, (provider, *_) = (
        compare_session(golden, manifest, session, variant),
        session.get_providers(),
    )
    second = compare_session(golden, manifest, session, variant)
    for result in (first, second):
        if not result.finding.passed:
            return result
    try:
        model = to_runnable(folder / variant.file, variant.precision)
        for level, lower_session in runtime.sessions_below_highest_level(model, provider):
            result = compare_session(golden, manifest, lower_session, variant)
            if not result.finding.passed:
                detail = f"{result.finding.detail}, at optimisation level '{level}'"
                return replace(result, finding=replace(result.finding, detail=detail))
    except runtime.ERRORS as error:
        detail = f"{first_line(error)}, below the highest optimisation level"
        return NumbersCheck(Finding("golden", False, detail))
    return first


def compare_session(
    golden: Golden, manifest: Manifest, session: runtime.Session, variant: Variant
) -> NumbersCheck:
    """Run a session on the golden input, and return its comparison with the golden outputs.

    The check fails if the session has other outputs than the golden numbers, if it cannot run, or
    if a difference exceeds the limit of the variant's precision. A session that takes only some of
    the golden inputs is compared as a tower.
    """
    input_names, config = (
        {session_input.name for session_input in session.get_inputs()},
        entry_of_manifest(manifest).config,
    )
    if input_names < golden.feeds.keys():
        return _compare_tower(golden, input_names, config.inputs, session, variant)
    names = [output.name for output in session.get_outputs()]
    unmatched = sorted(set(names) ^ golden.outputs.keys())
    if unmatched:
        return NumbersCheck(Finding("golden", False, f"only one side has {', '.join(unmatched)}"))
    try:
        outputs = dict(zip(names, session.run(names, golden.feeds), strict=True))
        sides = read_feed_sides(config.inputs, golden.feeds)
        comparisons = [
            to_comparison(sides, name, converter.compare(np.asarray(outputs[name]), expected))
            for name, expected in golden.outputs.items()
        ]
    except runtime.ERRORS as error:
        return NumbersCheck(Finding("golden", False, first_line(error)))
    finding_and_verification = to_finding(
        "golden", judge_comparisons(GOLDEN, PRECISIONS[variant.precision].limit, comparisons)
    )

    def by_patch() -> Residuals:
        """Return the differences of the outputs, on the grid of patches."""
        stride, (height, width) = config.stride, manifest.preprocessing.size
        return compute_residuals((height // stride, width // stride), outputs, golden.outputs)

    return NumbersCheck(*finding_and_verification, by_patch if config.takes_only_pixels else None)


def _compare_tower(
    golden: Golden,
    input_names: set[str],
    inputs: Sequence[Input],
    session: runtime.Session,
    variant: Variant,
) -> NumbersCheck:
    """Run the session of one tower on its golden inputs, and return the comparison of its vector.

    The check fails if there are no golden vectors of this tower, or if the session cannot run. The
    tower's `pooler_output` is normalized first, because the full network's outputs `image_embeds`
    and `text_embeds` are normalized. `input_names` are the golden inputs that the tower takes, and
    `inputs` describe those of the full network.
    """
    feeds, kinds = (
        {input_name: golden.feeds[input_name] for input_name in sorted(input_names)},
        find_kinds(inputs, input_names),
    )
    name = TOWER_OUTPUTS[kinds.pop()] if len(kinds) == 1 else ""
    if name not in golden.outputs:
        return NumbersCheck(Finding("golden", False, f"there are no vectors of {', '.join(feeds)}"))
    try:
        (vectors,) = session.run(["pooler_output"], feeds)
    except runtime.ERRORS as error:
        return NumbersCheck(Finding("golden", False, first_line(error)))
    unit_vectors = normalize_vectors(np.asarray(vectors))
    errors = converter.compare(unit_vectors, golden.outputs[name])
    record = to_comparison(read_feed_sides(inputs, feeds), "pooler_output", errors)
    return NumbersCheck(
        *to_finding(
            "golden", judge_comparisons(GOLDEN, PRECISIONS[variant.precision].limit, [record])
        )
    )


def to_finding(check: str, verification: Verification) -> tuple[Finding, Verification]:
    """Return a finding that describes a verification in words, together with the verification.

    `check` is the name of the check, such as `golden`.
    """
    detail = (
        f"{describe_worst_error(verification, verification.comparisons)}, "
        f"{describe_limit(verification)} asked"
    )
    detail += "" if verification.passed else f", {describe_levels(verification)}"
    return Finding(check, verification.passed, detail), verification
