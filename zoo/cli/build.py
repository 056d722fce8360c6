"""`zoo build MODEL…`: folders with every precision of a model, as people publish them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.checkpoints.choice import read_weights
from zoo.cli.options import All, Filter, Force, Images, Json, Offline, Weights
from zoo.errors import BadRequest
from zoo.export.request import Options, read_signature
from zoo.registry.lookup import info, select

if TYPE_CHECKING:
    from zoo.artifacts.build.plan import Plan
    from zoo.artifacts.build.schedule import Outcome, Pool

SHARE = 0.8
"""Of the memory that is free, what builds may take together unless told otherwise."""


def build(
    models: Annotated[
        list[str] | None, typer.Argument(help="Names or aliases; `zoo list` shows them.")
    ] = None,
    all: All = False,
    filter: Filter = None,
    out: Annotated[Path, typer.Option(help="A folder for the models' folders.")] = Path(
        "artifacts"
    ),
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="fp32|fused|fp16|bf16|int8", help="All but bf16 by default."),
    ] = None,
    weights: Weights = "auto",
    size: Annotated[
        str | None,
        typer.Option(metavar="N|HxW|dynamic", help="Pixels; dynamic unless for uint8."),
    ] = None,
    input: Images = "float32",
    jobs: Annotated[int, typer.Option(min=1, help="Models at once.")] = 1,
    memory: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="GB", help="For all of them; 80 % of what is free."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Build on the workers of a Dask cluster.")
    ] = None,
    force: Force = False,
    offline: Offline = False,
    json: Json = False,
) -> int:
    """Write a folder a model: opset 18 and fused, float16, int8, proven, with card and manifest."""
    names = [info(name).name for name in models or ()]
    if not names or all or filter:
        names = select(names[0] if names else None, all, filter or ())
    open_size = "dynamic" if input == "float32" else None
    options = Options(
        weights=weights,
        size=size or open_size,
        input=input,
        # Workers may have another working folder.
        out=out.absolute(),
        force=force,
        offline=offline,
    )
    outcomes = run(read_plans(names, options, variant or ()), jobs, memory, scheduler)
    if json:
        from zoo.manifest.text import to_text

        print(to_text([record(outcome) for outcome in outcomes]), end="")
    else:
        from zoo.cli.tables.results import show_builds

        show_builds(outcomes)
    return max(outcome.code for outcome in outcomes)


def read_plans(names: Sequence[str], options: Options, variants: Sequence[str]) -> list[Plan]:
    """A plan a model. **Raises** a `ZooError` for the first option that makes no sense."""
    from zoo.artifacts.build.plan import Plan
    from zoo.artifacts.build.variants import read_variants

    assert options.out is not None
    chosen, choice = read_variants(variants), read_weights(options.weights)
    models = tuple(dict.fromkeys(names))
    if isinstance(choice, Path):
        choice = choice.absolute()
        if len(models) > 1:
            raise BadRequest(
                f"--weights {options.weights} is one checkpoint for {len(models)} models: build "
                "them one by one, or keep the checkpoints where `--weights auto` finds them."
            )
    return [
        Plan(
            model=name,
            folder=options.out / name,
            weights=choice,
            signature=read_signature(info(name), options),
            variants=chosen,
            force=options.force,
            offline=options.offline,
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


def record(outcome: Outcome) -> dict[str, Any]:
    """An outcome for JSON."""
    return {
        "model": outcome.plan.model,
        "folder": str(outcome.plan.folder),
        "seconds": round(outcome.seconds, 1),
        "built": list(outcome.made),
        "already_there": list(outcome.there),
        "not_good_enough": list(outcome.wrong),
        "error": outcome.error,
        "manifest": outcome.manifest,
    }
