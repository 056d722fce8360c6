"""`--dry-run` of `zoo export` and `zoo build`: show the files and weights without writing."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from weights import Checkpoint
from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint, SeededWeights, WeightsChoice
from zoo.cli.console import CommandResult
from zoo.cli.model_argument import find_weights_path, find_weights_source
from zoo.common.errors import WRONG_USE, BadRequest, ZooError
from zoo.common.staging import sidecar_path
from zoo.export.request import Plan
from zoo.export.resources import MAX_UNSPLIT_BYTES, estimate_file_bytes

if TYPE_CHECKING:
    from zoo.cli.tables import Block


@dataclass(frozen=True)
class ModelPlan:
    """The plan of one model, as `--dry-run` shows it.

    - `model`: the name of the model.
    - `weights`: the source of its weights in words, or None after an error.
    - `files`: the approximate size in bytes of each file that would be written, by path.
    - `error`: the reason why no plan can be made, or None.
    """

    model: str
    weights: str | None = None
    files: Mapping[str, int] = field(default_factory=dict)
    error: str | None = None


def preview_plans(
    jobs: Mapping[str, Callable[[], Plan]], offline: bool, note: str
) -> CommandResult[list[ModelPlan]]:
    """Return the plans of models as the result of a command with `--dry-run`.

    **Arguments**

    - `jobs`: functions that make the plans, by the name of the model.
    - `offline`: whether weights must not be downloaded.
    - `note`: a text that is printed after the plans.

    If one of several plans cannot be made, its error becomes a part of the result, and the exit
    code is 2.

    **Raises** a `ZooError` if there is only one plan and it cannot be made.
    """
    plans = []
    for name, make_plan in jobs.items():
        try:
            plans.append(_preview_plan(make_plan(), offline))
        except ZooError as error:
            if len(jobs) == 1:
                raise
            plans.append(ModelPlan(name, error=str(error)))
    code = WRONG_USE if any(plan.error for plan in plans) else 0
    return CommandResult(plans, partial(_blocks, note=note), code=code)


def _preview_plan(plan: Plan, offline: bool) -> ModelPlan:
    """Return the files of a plan with approximate sizes, and the source of its weights.

    A model that needs a sidecar is listed as two files. **Raises** `BadRequest` if the weights are
    missing and cannot be downloaded.
    """
    files: dict[str, int] = {}
    for path, spec in zip(plan.targets, plan.files, strict=True):
        size = estimate_file_bytes(plan.model, spec.precision)
        split_files = {str(path): 0, str(sidecar_path(path)): size}
        files |= split_files if size > MAX_UNSPLIT_BYTES else {str(path): size}
    return ModelPlan(plan.model.name, _describe_weights(plan.model, plan.weights, offline), files)


def _describe_weights(entry: ModelInfo, choice: WeightsChoice, offline: bool) -> str:
    """Return the source of a model's weights in words, without opening them.

    **Raises** `BadRequest` if the weights are missing and cannot be downloaded.
    """
    if isinstance(choice, SeededWeights):
        return f"random (seed {choice.seed})"
    if isinstance(choice, Checkpoint):
        return f"on this machine, {choice.path}"
    path = choice.path if isinstance(choice, GivenCheckpoint) else find_weights_path(entry)
    if path is not None and path.exists():
        return f"on this machine, {path}"
    if isinstance(choice, GivenCheckpoint):
        raise BadRequest(f"{choice.path} does not exist: name a checkpoint with --weights.")
    if find_weights_source(entry)[0] == "hub" and not offline:
        return f"to be downloaded, {entry.hub[0]}"
    raise BadRequest(
        f"the weights of {entry.name} are not on this machine and would not be downloaded: "
        f"`zoo info {entry.name}` says where they are published."
    )


def _blocks(plans: list[ModelPlan], note: str) -> "Iterator[Block]":
    """Yield what is printed about plans: a table of all files, the weights or the error by model.

    `note` is printed at the end.
    """
    from zoo.cli.tables import Table, prefix_lines

    files = {path: size for plan in plans for path, size in plan.files.items()}
    sizes = {**files, "total": sum(files.values())}
    yield Table(("~file", ">MB, about"), [(p, f"{size / 1e6:,.1f}") for p, size in sizes.items()])
    for plan in plans:
        yield from prefix_lines(plan.model, [plan.error or f"weights: {plan.weights}"])
    yield f"{note}\nnothing was written or downloaded: leave out --dry-run to do it"
