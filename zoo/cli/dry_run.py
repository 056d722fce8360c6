"""`--dry-run` of `export` and `build`: what would be written, and from which weights."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from weights import Checkpoint
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import Choice, GivenCheckpoint, SeededWeights
from zoo.cli.console import CommandResult
from zoo.cli.model_argument import here, publisher
from zoo.common.errors import WRONG_USE, BadRequest, ZooError
from zoo.common.staging import sidecar_path
from zoo.export.request import Plan
from zoo.export.resources import MAX_UNSPLIT_BYTES, estimate_file_bytes

if TYPE_CHECKING:
    from zoo.cli.tables import Block


@dataclass(frozen=True)
class ModelPlan:
    """Plan of one model: files with their bytes, about, or an error."""

    model: str
    weights: str | None = None
    files: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def foresee(
    jobs: Mapping[str, Callable[[], Plan]], offline: bool, more: str
) -> CommandResult[list[ModelPlan]]:
    """What would be written. **Raises** the `ZooError` of a single model."""
    plans = []
    for name, read in jobs.items():
        try:
            plans.append(_foreseen(read(), offline))
        except ZooError as error:
            if len(jobs) == 1:
                raise
            plans.append(ModelPlan(name, error=str(error)))
    code = WRONG_USE if any(plan.error for plan in plans) else 0
    return CommandResult(plans, partial(_blocks, beside=more), code=code)


def _foreseen(plan: Plan, offline: bool) -> ModelPlan:
    files: dict[str, int] = {}
    for path, spec in zip(plan.targets, plan.files, strict=True):
        size = estimate_file_bytes(plan.model, spec.precision)
        outside = {str(path): 0, str(sidecar_path(path)): size}
        files |= outside if size > MAX_UNSPLIT_BYTES else {str(path): size}
    return ModelPlan(plan.model.name, _weights(plan.model, plan.weights, offline), files)


def _weights(entry: ModelInfo, choice: Choice, offline: bool) -> str:
    """Where they would come from. **Raises** `BadRequest` if from nowhere."""
    if isinstance(choice, SeededWeights):
        return f"random (seed {choice.value})"
    if isinstance(choice, Checkpoint):
        return f"on this machine, {choice.path}"
    path = choice.path if isinstance(choice, GivenCheckpoint) else here(entry)
    if path is not None and path.exists():
        return f"on this machine, {path}"
    if isinstance(choice, GivenCheckpoint):
        raise BadRequest(f"{choice.path} does not exist: name a checkpoint with --weights.")
    if publisher(entry)[0] == "hub" and not offline:
        return f"to be downloaded, {entry.hub[0]}"
    raise BadRequest(
        f"the weights of {entry.name} are not on this machine and would not be downloaded: "
        f"`zoo info {entry.name}` says where they can be had."
    )


def _blocks(plans: list[ModelPlan], beside: str) -> "Iterator[Block]":
    from zoo.cli.tables import Table, about

    files = {path: size for plan in plans for path, size in plan.files.items()}
    sizes = {**files, "total": sum(files.values())}
    yield Table(("~file", ">MB, about"), [(p, f"{size / 1e6:,.1f}") for p, size in sizes.items()])
    for plan in plans:
        yield from about(plan.model, [plan.error or f"weights: {plan.weights}"])
    yield f"{beside}\nnothing was written or downloaded: leave out --dry-run to do it"
