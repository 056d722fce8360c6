"""The golden numbers of a folder: one input, and what the network makes of it in JAX."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

import converter
from zoo.architectures.inputs import Input, Kind, find_kinds, read_feed_sides
from zoo.artifacts.folder_check import Finding, NumbersCheck, Residuals, residuals
from zoo.artifacts.measured import Verification
from zoo.artifacts.read import stated_entry
from zoo.artifacts.schema import Manifest, Variant
from zoo.artifacts.words import limit, tried_levels, worst_words
from zoo.common import runtime
from zoo.common.errors import BadFile, first_line
from zoo.common.golden_file import Golden, read_golden
from zoo.export.assemble.extras import GOLDEN
from zoo.export.precisions import PRECISIONS
from zoo.export.verify import compared, judge, runnable
from zoo.tasks.answer import unit

TOWER_OUTPUTS: dict[Kind, str] = {"picture": "image_embeds", "text": "text_embeds"}
"""What the vectors of a tower are called in a model of two, by what it takes."""

Compare: TypeAlias = Callable[[runtime.Session, Variant], NumbersCheck]
"""How far what a session gives is from what it should."""


def compare_golden(folder: Path, manifest: Manifest) -> tuple[Finding, Compare]:
    """Whether a folder's golden numbers can be read, and the comparison with them."""
    try:
        golden = read_golden(folder / GOLDEN)
    except BadFile as error:
        lost = Finding("golden", False, "there are no golden numbers to compare with")
        return Finding("golden numbers", False, str(error)), lambda live, variant: NumbersCheck(
            lost
        )
    shapes = {name: "x".join(map(str, value.shape)) for name, value in golden.fed.items()}
    listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    return Finding("golden numbers", True, listed), partial(
        _at_every_level, folder, golden, manifest
    )


def _at_every_level(
    folder: Path, golden: Golden, manifest: Manifest, live: runtime.Session, variant: Variant
) -> NumbersCheck:
    """The golden input in a session twice, and at the levels of optimisation below it: the first
    that is wrong, or else what the session gave."""
    judged, (provider, *_) = rerun(golden, manifest, live, variant), live.get_providers()
    again = rerun(golden, manifest, live, variant)
    for judgement in (judged, again):
        if not judgement.finding.passed:
            return judgement
    try:
        model = runnable(folder / variant.file, variant.precision)
        for level, lower in runtime.lower_sessions(model, provider):
            judgement = rerun(golden, manifest, lower, variant)
            if not judgement.finding.passed:
                detail = f"{judgement.finding.detail}, at optimisation level '{level}'"
                return replace(judgement, finding=replace(judgement.finding, detail=detail))
    except runtime.ERRORS as error:
        detail = f"{first_line(error)}, below the highest optimisation level"
        return NumbersCheck(Finding("golden", False, detail))
    return judged


def rerun(
    golden: Golden, manifest: Manifest, live: runtime.Session, variant: Variant
) -> NumbersCheck:
    """The golden input through a session, and how far from the golden outputs that is."""
    taken, config = {each.name for each in live.get_inputs()}, stated_entry(manifest).config
    if taken < golden.fed.keys():
        return _tower(golden, taken, config.inputs, live, variant)
    names = [output.name for output in live.get_outputs()]
    lost = sorted(set(names) ^ golden.outputs.keys())
    if lost:
        return NumbersCheck(Finding("golden", False, f"only one side has {', '.join(lost)}"))
    try:
        got = dict(zip(names, live.run(names, golden.fed), strict=True))
        sides = read_feed_sides(config.inputs, golden.fed)
        comparisons = [
            compared(sides, name, converter.compare(np.asarray(got[name]), expected))
            for name, expected in golden.outputs.items()
        ]
    except runtime.ERRORS as error:
        return NumbersCheck(Finding("golden", False, first_line(error)))
    judged = finding("golden", judge(GOLDEN, PRECISIONS[variant.precision].limit, comparisons))

    def by_patch() -> Residuals:
        stride, (height, width) = config.stride, manifest.preprocessing.size
        return residuals((height // stride, width // stride), got, golden.outputs)

    return NumbersCheck(*judged, by_patch if config.takes_only_pixels else None)


def _tower(
    golden: Golden,
    taken: set[str],
    inputs: Sequence[Input],
    live: runtime.Session,
    variant: Variant,
) -> NumbersCheck:
    """One of two towers, whose vectors have other lengths than those of both."""
    fed, kinds = {each: golden.fed[each] for each in sorted(taken)}, find_kinds(inputs, taken)
    name = TOWER_OUTPUTS[kinds.pop()] if len(kinds) == 1 else ""
    if name not in golden.outputs:
        return NumbersCheck(Finding("golden", False, f"there are no vectors of {', '.join(fed)}"))
    try:
        (vectors,) = live.run(["pooler_output"], fed)
    except runtime.ERRORS as error:
        return NumbersCheck(Finding("golden", False, first_line(error)))
    unit_vectors = unit(np.asarray(vectors))
    errors = converter.compare(unit_vectors, golden.outputs[name])
    record = compared(read_feed_sides(inputs, fed), "pooler_output", errors)
    return NumbersCheck(
        *finding("golden", judge(GOLDEN, PRECISIONS[variant.precision].limit, [record]))
    )


def finding(check: str, verification: Verification) -> tuple[Finding, Verification]:
    """How far off numbers are, in words as well."""
    detail = f"{worst_words(verification, verification.comparisons)}, {limit(verification)} asked"
    detail += "" if verification.passed else f", {tried_levels(verification)}"
    return Finding(check, verification.passed, detail), verification
