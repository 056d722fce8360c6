"""`zoo build MODEL…`: folders with every precision of a model, as people publish them."""

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
from zoo.cli.command_options import All, DryRun, Filter, model_names, options_of
from zoo.cli.console import CommandResult, tell_recognised
from zoo.cli.dry_run import foresee
from zoo.common.errors import BadRequest
from zoo.common.options import (
    FILE,
    FORCE,
    OFFLINE,
    SIZE,
    Option,
    out_folder,
)
from zoo.export.assemble.plan import (
    DEFAULT_VARIANTS,
    VARIANTS,
    plan_folder,
    read_variants,
    variant_option,
)
from zoo.export.export_options import CALIBRATE, INPUT, KEEP_INEXACT, OUTPUTS, SCALES
from zoo.export.request import Options, Plan, Size, check_activations, read_calibration
from zoo.registry.lookup import select

if TYPE_CHECKING:
    from zoo.cli.tables import Block
    from zoo.export.exporter import Outcome

RESOURCES = "Resources"
NAMES = "Names or aliases of models; `zoo list` shows them."
MEMORY = "How much memory all builds may take together."
JOBS = "How many models are built at once."
FREE_MEMORY = "80 % of what is free"
SIZE_OF_ALL = replace(SIZE, default="dynamic, and the model's own for uint8")
OLDEST = Option(
    "VERSION",
    "The oldest version of ONNX Runtime that is to run the files, such as 1.20; variants that it "
    "cannot run are left out.",
    FILE,
    name="--for",
    default=OLDEST_RUNTIME,
)
BESIDE_FILES = "each folder also gets its card, manifest, settings, licence and expected outputs"

SHARE = 0.8
"""Of the memory that is free, what builds may take together unless told otherwise."""


@options_of(WeightsOptions)
def build(
    asked: WeightsOptions,
    models: Annotated[Sequence[str], model_names(NAMES)] = (),
    all: All = False,
    filter: Filter = (),
    variant: Annotated[Sequence[str], variant_option(", ".join(DEFAULT_VARIANTS))] = (),
    out: Annotated[Path, out_folder(True, ", which gets one for each model")] = Path("artifacts"),
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
    jobs: Annotated[int, Option("N", JOBS, RESOURCES, least=1)] = 1,
    memory: Annotated[
        float | None, Option("GB", MEMORY, RESOURCES, least=0.1, default=FREE_MEMORY)
    ] = None,
) -> CommandResult[Any]:
    """Build for each model a folder that others can use, with checked and described ONNX files.

    Files that an earlier build has finished are kept as they are.
    """
    target = f"{DEFAULT_TARGET}>={oldest_runtime}" if oldest_runtime else DEFAULT_TARGET
    variants, choice = read_variants(variant, target), asked.choice
    if isinstance(choice, GivenCheckpoint):
        choice = replace(choice, path=choice.path.absolute())
    if isinstance(choice, GivenCheckpoint) and not (models or all or filter):
        entries = [tell_recognised(choice)[0]]
        # Whoever reads it once more finds it by the name that it has now.
        choice = replace(choice, name=entries[0].name)
    else:
        names = select(models, all, filter)
        if isinstance(choice, GivenCheckpoint) and len(names) > 1:
            raise BadRequest(
                f"--weights {asked.weights} is one checkpoint for {len(names)} models: build them "
                "one by one, or keep the checkpoints where `--weights auto` finds them."
            )
        entries = [find_entry(each, choice)[0] for each in names]
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
    check_activations(options, [VARIANTS[name].precision for name in variants])
    pictures, folder = read_calibration(options), out.absolute()
    planned = {
        entry.name: plan_folder(entry, choice, options, variants, folder / entry.name, pictures)
        for entry in entries
    }
    plans = [*planned.values()]
    if dry_run:
        foreseen = {plan.model.name: partial(replace, plan) for plan in plans}
        return foresee(foreseen, offline, BESIDE_FILES)
    outcomes = run_plans(plans, jobs, memory)
    code = max(outcome.code for outcome in outcomes)
    return CommandResult(
        outcomes, build_blocks, lambda done: [*map(build_record, plans, done)], code
    )


def run_plans(plans: list[Plan], jobs: int, memory: float | None) -> list["Outcome"]:
    """Build all folders, in this process or in so many processes."""
    from psutil import virtual_memory

    from zoo.cli.build_progress import board
    from zoo.export.assemble.schedule import InProcessExecutor, Pool, process_pool, run_builds

    budget = SHARE * virtual_memory().available if memory is None else memory * 1e9
    pool: AbstractContextManager[Pool]
    with board(plans) as shown:
        if jobs > 1:
            pool = process_pool(jobs, shown.told)
        else:
            pool = nullcontext(Pool(InProcessExecutor, shown.told, lost=()))
        with pool as opened:
            return run_builds(plans, opened, budget, shown.finished)


def build_record(plan: Plan, outcome: "Outcome") -> dict[str, Any]:
    """An outcome for JSON."""
    record = outcome.record | {"folder": plan.folder}
    manifest = next(iter(record.pop("manifests")), None)
    return record | {"not_good_enough": record.pop("failed"), "manifest": manifest}


def build_blocks(outcomes: Sequence["Outcome"]) -> "Iterator[Block]":
    """One line a file of every folder, then what could not be made, and why."""
    from zoo.artifacts.measured import is_busy
    from zoo.artifacts.words import describe_calibration, variant_rows
    from zoo.cli.tables import Table, about, counted

    rows = [
        (outcome.model, *row)
        for outcome in outcomes
        for manifest in outcome.manifests
        for row in variant_rows(manifest)
    ]
    headings = ("model", "file", ">MB", ">nodes", ">from JAX", ">speed")
    if rows:
        yield Table(headings, rows, counted(len(outcomes), "folder"))
    for outcome in outcomes:
        variants = (each for manifest in outcome.manifests for each in manifest.variants.values())
        speeds = [each.speeds for each in outcome.manifests if each.speeds]
        busy = (each.load_description for each in speeds if is_busy(each.others))
        ranged = (describe_calibration(each.calibration) for each in variants if each.calibration)
        yield from about(outcome.model, ranged)
        wrong = (f"{name} was not written: it is too far from fp32" for name in outcome.failed)
        yield from about(outcome.model, (*busy, *wrong, outcome.error))
