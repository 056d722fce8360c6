"""`zoo build MODEL…`: write a folder with every precision of a model, ready to be published."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from converter.opsets import DEFAULT_TARGET, OLDEST_RUNTIME
from zoo.artifacts.choices import Input, Scales
from zoo.checkpoints.pretrained import find_entry
from zoo.checkpoints.source import GivenCheckpoint, WeightsOptions
from zoo.cli.command_options import All, DryRun, Filter, derive_options, model_names
from zoo.cli.console import CommandResult, announce_checkpoint
from zoo.cli.dry_run import preview_plans
from zoo.common.errors import BadRequest
from zoo.common.options import FILE_PANEL, FORCE, OFFLINE, SIZE, Option, out_folder_option
from zoo.export.assemble.plan import (
    DEFAULT_VARIANTS,
    VARIANTS,
    plan_folder,
    read_variants,
    variant_option,
)
from zoo.export.export_options import CALIBRATE, INPUT, KEEP_INEXACT, OUTPUTS, SCALES
from zoo.export.request import Options, Plan, Size, check_activation_options, read_calibration
from zoo.registry.lookup import select_models

if TYPE_CHECKING:
    from zoo.cli.tables import Block
    from zoo.export.exporter import Outcome

RESOURCES = "Resources"
NAMES = "Names or aliases of models; `zoo list` shows them."
MEMORY = "The memory that all builds may use together."
JOBS = "The number of models that are built at the same time."
FREE_MEMORY = "80 % of the free memory"
SIZE_OF_ALL = replace(SIZE, default="dynamic, and the model's own for uint8")
OLDEST = Option(
    "VERSION",
    "The oldest version of ONNX Runtime that has to run the files, such as 1.20; variants that "
    "it cannot run are left out.",
    FILE_PANEL,
    name="--for",
    default=OLDEST_RUNTIME,
)
FOLDER_NOTE = "each folder also gets a card, manifest, settings, licence and expected outputs"
"""The note of `--dry-run` about the other files of a folder."""

MEMORY_SHARE = 0.8
"""The share of the free memory that all builds may use together by default."""


@derive_options(WeightsOptions)
def build(
    request: WeightsOptions,
    models: Annotated[Sequence[str], model_names(NAMES)] = (),
    all: All = False,
    filter: Filter = (),
    variant: Annotated[Sequence[str], variant_option(", ".join(DEFAULT_VARIANTS))] = (),
    out: Annotated[Path, out_folder_option(True, ", which gets one for each model")] = Path(
        "artifacts"
    ),
    force: Annotated[bool, FORCE] = False,
    keep_inexact: Annotated[bool, KEEP_INEXACT] = False,
    offline: Annotated[bool, OFFLINE] = False,
    dry_run: DryRun = False,
    size: Annotated[Size, SIZE_OF_ALL] = None,
    output: Annotated[Sequence[str], OUTPUTS] = (),
    input: Annotated[Input, INPUT] = "float32",
    calibrate: Annotated[Path | None, CALIBRATE] = None,
    scales: Annotated[Scales, SCALES] = "tensor",
    oldest_runtime: Annotated[str, OLDEST] = "",
    jobs: Annotated[int, Option("N", JOBS, RESOURCES, minimum=1)] = 1,
    memory: Annotated[
        float | None, Option("GB", MEMORY, RESOURCES, minimum=0.1, default=FREE_MEMORY)
    ] = None,
) -> CommandResult[Any]:
    """Write a folder for each model, with verified ONNX files and their descriptions.

    Files that an earlier build finished are kept.
    """
    target = f"{DEFAULT_TARGET}>={oldest_runtime}" if oldest_runtime else DEFAULT_TARGET
    variants, choice = read_variants(variant, target), request.choice
    if isinstance(choice, GivenCheckpoint):
        choice = replace(choice, path=choice.path.absolute())
    if isinstance(choice, GivenCheckpoint) and not (models or all or filter):
        entries = [announce_checkpoint(choice)[0]]
        # The name is kept, so that the processes that build need not recognise the model again.
        choice = replace(choice, name=entries[0].name)
    else:
        names = select_models(models, all, filter)
        if isinstance(choice, GivenCheckpoint) and len(names) > 1:
            raise BadRequest(
                f"--weights {request.weights} is one checkpoint for {len(names)} models: build "
                "them one by one, or keep the checkpoints where `--weights auto` finds them."
            )
        entries = [find_entry(name, choice)[0] for name in names]
    options = Options(
        force=force,
        keep_inexact=keep_inexact,
        offline=offline,
        calibrate=calibrate and calibrate.absolute(),
        scales=scales,
        target=target,
        size=size or ("dynamic" if input == "float32" else None),
        outputs=output,
        input=input,
    )
    check_activation_options(options, [VARIANTS[name].precision for name in variants])
    pictures, folder = read_calibration(options), out.absolute()
    plans_by_model = {
        entry.name: plan_folder(entry, choice, options, variants, folder / entry.name, pictures)
        for entry in entries
    }
    plans = [*plans_by_model.values()]
    if dry_run:
        jobs_by_model = {plan.model.name: partial(replace, plan) for plan in plans}
        return preview_plans(jobs_by_model, offline, FOLDER_NOTE)
    outcomes = run_plans(plans, jobs, memory)
    code = max(outcome.exit_code for outcome in outcomes)
    return CommandResult(
        outcomes, build_blocks, lambda outcomes: [*map(build_record, plans, outcomes)], code
    )


def run_plans(plans: list[Plan], jobs: int, memory: float | None) -> list["Outcome"]:
    """Build the folders of all plans, and return their outcomes in the order of the plans.

    **Arguments**

    - `jobs`: the number of processes. With 1, folders are built one after the other in this
      process.
    - `memory`: the limit in GB for all builds together. None means 80 % of the free memory.
    """
    from psutil import virtual_memory

    from zoo.cli.build_progress import show_builds
    from zoo.export.assemble.schedule import InProcessExecutor, Pool, process_pool, run_builds

    budget = MEMORY_SHARE * virtual_memory().available if memory is None else memory * 1e9
    pool: AbstractContextManager[Pool]
    with show_builds(plans) as display:
        if jobs > 1:
            pool = process_pool(jobs, display.show_step)
        else:
            pool = nullcontext(Pool(InProcessExecutor, display.show_step, worker_errors=()))
        with pool as opened:
            return run_builds(plans, opened, budget, display.show_outcome)


def build_record(plan: Plan, outcome: "Outcome") -> dict[str, Any]:
    """Return the outcome of a build as `--json` prints it, with the path of its folder."""
    record = outcome.record | {"folder": plan.folder}
    manifest = next(iter(record.pop("manifests")), None)
    return record | {"not_good_enough": record.pop("failed"), "manifest": manifest}


def build_blocks(outcomes: Sequence["Outcome"]) -> "Iterator[Block]":
    """Yield what is printed about builds: a table of all files, then notes and errors by model.

    The notes state the load of the machine if that made measured speeds unreliable, the choice of
    an int8 file, and the files that were too imprecise to be written.
    """
    from zoo.artifacts.descriptions import describe_calibration, variant_rows
    from zoo.artifacts.measured import is_busy
    from zoo.cli.tables import Table, count_noun, prefix_lines

    rows = [
        (outcome.model, *row)
        for outcome in outcomes
        for manifest in outcome.manifests
        for row in variant_rows(manifest)
    ]
    headings = ("model", "file", ">MB", ">nodes", ">from JAX", ">speed")
    if rows:
        yield Table(headings, rows, count_noun(len(outcomes), "folder"))
    for outcome in outcomes:
        variants = (
            variant for manifest in outcome.manifests for variant in manifest.variants.values()
        )
        speeds = [manifest.speeds for manifest in outcome.manifests if manifest.speeds]
        busy_notes = (speed.load_description for speed in speeds if is_busy(speed.others))
        calibrations = (
            describe_calibration(variant.calibration) for variant in variants if variant.calibration
        )
        yield from prefix_lines(outcome.model, calibrations)
        failures = (f"{name} was not written: it is too far from fp32" for name in outcome.failed)
        yield from prefix_lines(outcome.model, (*busy_notes, *failures, outcome.error))
