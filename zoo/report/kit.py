"""One report: which models there is time for, measured one after the other, and gone on with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from weights.errors import WeightsError
from weights.files import sha256
from weights.parameters import parameter
from weights.progress import Progress
from zoo.architectures.entry import ModelInfo
from zoo.common.errors import BadFile, BadRequest
from zoo.common.staging import locked_output
from zoo.report import content, matching, page
from zoo.report.accuracy import ModelProof, measure_model, tools_of
from zoo.report.box_precision import BoxTask
from zoo.report.budget import Budget, products_a_second
from zoo.report.labelled import LabelledTask


@dataclass(frozen=True)
class ReportRequest:
    """Request of a report, in so many `minutes`, about checkpoints in a folder."""

    weights: Path
    entries: Sequence[ModelInfo]
    variants: tuple[str, ...]
    task: LabelledTask | None
    minutes: float
    folder: Path
    boxes: BoxTask | None = None


@dataclass
class Outcomes:
    """Outcomes by model: `measured` now, `already` before, `left` for another time, or
    `failed`. The last two have the reason."""

    report: content.ReportContent
    measured: list[str] = field(default_factory=list)
    already: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def make_report(asked: ReportRequest, progress: Progress) -> Outcomes:
    """Measure what there is time for, the smallest models first, and write the report anew after
    each. What an earlier run measured in the same way is not measured again.

    **Raises** a `ZooError`.
    """
    page.report_so_far(asked.folder)
    there = matching.find(asked.weights, asked.entries)
    for name, reason in there.left_out.items():
        progress.note(f"{name} was left out: {reason}")
    with locked_output(asked.folder, progress):
        outcomes = Outcomes(page.report_so_far(asked.folder))
        missing: list[ModelInfo] = []
        for entry in (each for each in asked.entries if each.name in there.found):
            if is_known(outcomes.report, entry, there.found[entry.name], asked):
                outcomes.already.append(entry.name)
                progress.note(f"{entry.name} was measured before")
            else:
                missing.append(entry)
        budget = Budget(60 * asked.minutes, len(asked.variants), products_a_second())
        missing.sort(key=budget.takes)
        tell_time(missing, budget, asked, progress)
        while missing:
            entry = missing.pop(0)
            if budget.takes(entry) > budget.left:
                outcomes.left[entry.name] = too_long(entry, budget, asked)
                progress.note(f"{entry.name} was left: {outcomes.left[entry.name]}")
                continue
            later = [each for each in missing if budget.takes(each) <= budget.left]
            seconds = budget.part(entry, later)
            measure_one(entry, there.found[entry.name], seconds, asked, outcomes, budget, progress)
        if outcomes.report.models and not outcomes.measured:
            page.write_report(outcomes.report, asked.folder)  # of whoever was stopped before it
    return outcomes


def measure_one(
    entry: ModelInfo,
    path: Path,
    seconds: float,
    asked: ReportRequest,
    outcomes: Outcomes,
    budget: Budget,
    progress: Progress,
) -> None:
    """Measure one model, and write the report with it; or note why it cannot be measured."""
    progress.stage(f"{entry.name}: reading {path.name}")
    proof = ModelProof(entry, asked.variants, asked.task, asked.boxes, progress, seconds)
    try:
        measured = measure_model(path, proof, asked.folder)
    except (WeightsError, BadRequest, BadFile) as error:
        # One damaged file keeps nobody from the other models.
        outcomes.failed[entry.name] = str(error)
        progress.note(f"{entry.name} was not measured: {error}")
        return
    budget.learn(entry, measured.seconds - proof.on_images)
    outcomes.report = page.add(outcomes.report, measured)
    outcomes.measured.append(entry.name)
    page.write_report(outcomes.report, asked.folder)


def is_known(
    report: content.ReportContent, entry: ModelInfo, path: Path, asked: ReportRequest
) -> bool:
    """Whether a report has this model of this checkpoint, by the same versions of everything, and
    all that is asked of it."""
    measured = {each.model: each for each in report.models}.get(entry.name)
    folder = asked.task.told.folder if asked.task else None
    boxes = asked.boxes.told.folder if asked.boxes else None
    return (
        measured is not None
        and measured.checkpoint == path.name
        and measured.tools == tools_of(entry)
        and {*asked.variants} <= measured.files.keys()
        and folder in (None, measured.images.folder if measured.images else None)
        and boxes in (None, measured.boxes.folder if measured.boxes else None)
        and (measured.sha256 is None or not path.is_file() or measured.sha256 == sha256(path))
    )


def tell_time(
    missing: Sequence[ModelInfo], budget: Budget, asked: ReportRequest, progress: Progress
) -> None:
    """Say how long it will take, as far as this machine's speed tells that."""
    if not missing:
        return
    sum_of, fitting = 0.0, 0
    for entry in missing:
        if sum_of + budget.takes(entry) <= budget.left:
            sum_of, fitting = sum_of + budget.takes(entry), fitting + 1
    span = f"about {minutes(sum_of)} of at most {asked.minutes:g}"
    rest = "; as many images as there is time for take the rest"
    images = rest if any((asked.task, asked.boxes)) else ""
    progress.note(f"{fitting} of {len(missing)} models take {span}{images}")


def too_long(entry: ModelInfo, budget: Budget, asked: ReportRequest) -> str:
    """Why a model has to wait, and what to do."""
    takes = budget.takes(entry)
    trouble = f"it takes about {minutes(takes)}, more than is left ({minutes(budget.left)})"
    if takes > 60 * asked.minutes:
        return f"{trouble}; write {parameter('minutes')} {round(1.5 * takes / 60) + 1}"
    return f"{trouble}; run the command again, and it goes on"


def minutes(seconds: float) -> str:
    """Minutes of a time, in words."""
    count = max(0, round(seconds / 60))
    return f"{count} minute{'s' * (count != 1)}" if count else "less than a minute"
