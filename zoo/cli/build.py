"""`zoo build MODEL…`: folders with every precision of a model, as people publish them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from zoo.checkpoints.choice import read_weights
from zoo.cli import options
from zoo.cli.console import print_json
from zoo.cli.dry_run import Wanted, foresee
from zoo.errors import BadRequest
from zoo.export.request import Options, read_signature
from zoo.registry.lookup import info, select

if TYPE_CHECKING:
    from zoo.artifacts.build.plan import Plan
    from zoo.artifacts.build.schedule import Pool
    from zoo.export.many import Outcome

RESOURCES = "Resources"
NAMES = "Names or aliases of models; `zoo list` shows them."
MEMORY = options.value(
    "GB",
    "How much memory all builds may take together.",
    RESOURCES,
    min=0.1,
    show_default="80 % of what is free",
)
EXTRAS = "each folder also gets its card, manifest, settings, licence and expected outputs"

SHARE = 0.8
"""Of the memory that is free, what builds may take together unless told otherwise."""


def build(
    models: Annotated[list[str] | None, options.models(NAMES)] = None,
    all: options.All = False,
    filter: options.Filter = None,
    variant: Annotated[list[str] | None, options.variants("all but bf16")] = None,
    weights: options.Weights = "auto",
    out: Annotated[Path, options.out(True, ", which gets one for each model")] = Path("artifacts"),
    force: options.ForceInexact = False,
    offline: options.Offline = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
    size: Annotated[str | None, options.size("dynamic, and the model's own for uint8")] = None,
    input: options.Images = "float32",
    jobs: Annotated[
        int, options.value("N", "How many models are built at once.", RESOURCES, min=1)
    ] = 1,
    memory: Annotated[float | None, MEMORY] = None,
    scheduler: Annotated[
        str | None, options.value("ADDRESS", "Build on the workers of a Dask cluster.", RESOURCES)
    ] = None,
) -> int:
    """Build a folder for each model, with its checked and documented ONNX files, for others.

    What an earlier build finished stays as it is.
    """
    open_size = "dynamic" if input == "float32" else None
    asked = Options(
        weights=weights,
        size=size or open_size,
        input=input,
        # Workers may have another working folder.
        out=out.absolute(),
        force=force,
        offline=offline,
    )
    plans = read_plans(select(models or (), all, filter or ()), asked, variant or ())
    if dry_run:
        return foresee({plan.model: partial(wanted, plan) for plan in plans}, offline, json, EXTRAS)
    outcomes = run(plans, jobs, memory, scheduler)
    if json:
        print_json([*map(record, plans, outcomes)])
    else:
        show_builds(outcomes)
    return max(outcome.code for outcome in outcomes)


def wanted(plan: Plan) -> Wanted:
    """The files of a build that is only talked about."""
    from zoo.artifacts.build.plan import VARIANTS

    chosen = [VARIANTS[name] for name in plan.variants]
    return plan.weights, {plan.folder / each.file: each.precision for each in chosen}


def read_plans(names: Sequence[str], asked: Options, variants: Sequence[str]) -> list[Plan]:
    """A plan a model. **Raises** a `ZooError` for the first option that makes no sense."""
    from zoo.artifacts.build.plan import Plan, read_variants

    assert asked.out is not None
    chosen, choice = read_variants(variants), read_weights(asked.weights)
    models = tuple(dict.fromkeys(names))
    if isinstance(choice, Path):
        choice = choice.absolute()
        if len(models) > 1:
            raise BadRequest(
                f"--weights {asked.weights} is one checkpoint for {len(models)} models: build "
                "them one by one, or keep the checkpoints where `--weights auto` finds them."
            )
    return [
        Plan(
            model=name,
            folder=asked.out / name,
            weights=choice,
            signature=read_signature(info(name), asked),
            variants=chosen,
            force=asked.force,
            offline=asked.offline,
        )
        for name in models
    ]


def run(plans: list[Plan], jobs: int, memory: float | None, scheduler: str | None) -> list[Outcome]:
    """Build them all, where the options say."""
    from psutil import virtual_memory

    from zoo.artifacts.build import pools, schedule
    from zoo.cli.lines import board

    budget = SHARE * virtual_memory().available if memory is None else memory * 1e9
    pool: AbstractContextManager[Pool]
    with board(plans) as shown:
        if scheduler is not None:
            # Each worker has memory of its own, and as many threads as builds fit in it.
            pool, budget = pools.cluster(scheduler), math.inf
        elif jobs > 1:
            pool = pools.processes(jobs, shown.told)
        else:
            pool = nullcontext(pools.here(shown.told))
        with pool as opened:
            return schedule.run(plans, opened, budget, shown.finished)


def record(plan: Plan, outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON."""
    told = vars(outcome) | {"folder": plan.folder}
    manifest = next(iter(told.pop("manifests")), None)
    return told | {"not_good_enough": told.pop("failed"), "manifest": manifest}


def show_builds(outcomes: Sequence[Outcome]) -> None:
    """One line a file of every folder, then what could not be made, and why."""
    from zoo.cli.tables import print_table, table
    from zoo.manifest.words import build_rows

    rows = table(
        "model", "file", ">MB", ">nodes", ">from JAX", ">speed", title=f"{len(outcomes)} folders"
    )
    for outcome in outcomes:
        for manifest in outcome.manifests:
            for row in build_rows(manifest):
                rows.add_row(outcome.model, *row)
    print_table(rows)
    for outcome in outcomes:
        lines = [f"{name} was not written: it is too far from fp32" for name in outcome.failed]
        for line in [*lines, *([outcome.error] if outcome.error else [])]:
            print(f"{outcome.model}: {line}")
