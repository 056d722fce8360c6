"""`zoo build MODEL…`: folders with every precision of a model, as people publish them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.errors import BadRequest
from zoo.registry import info, select
from zoo.request import Input, Options, read_signature, read_weights

if TYPE_CHECKING:
    from zoo.build.plan import Plan
    from zoo.build.schedule import Outcome, Pool

SHARE = 0.8
"""Of the memory that is free, what builds may take together unless told otherwise."""


def build(
    models: Annotated[
        list[str] | None, typer.Argument(help="Names or aliases; `zoo list` shows them.")
    ] = None,
    all: Annotated[bool, typer.Option("--all", help="Every model of the zoo.")] = False,
    filter: Annotated[
        list[str] | None,
        typer.Option(metavar="PATTERN", help="Of --all, names like '*vits*'; may be repeated."),
    ] = None,
    out: Annotated[Path, typer.Option(help="A folder for the models' folders.")] = Path(
        "artifacts"
    ),
    variant: Annotated[
        list[str] | None,
        typer.Option(metavar="fp32|fused|fp16|bf16|int8", help="All but bf16 by default."),
    ] = None,
    weights: Annotated[
        str, typer.Option(metavar="auto|random[:SEED]|PATH", help="Where the weights come from.")
    ] = "auto",
    size: Annotated[
        str | None,
        typer.Option(metavar="N|HxW|dynamic", help="Pixels; dynamic unless for uint8."),
    ] = None,
    input: Annotated[
        Input, typer.Option(help="uint8: the files take images and preprocess them.")
    ] = "float32",
    jobs: Annotated[int, typer.Option(min=1, help="Models at once.")] = 1,
    memory: Annotated[
        float | None,
        typer.Option(min=0.1, metavar="GB", help="For all of them; 80 % of what is free."),
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Build on the workers of a Dask cluster.")
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace earlier files; keep inexact ones.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Never ask the hub for weights.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the manifests as JSON and nothing else.")
    ] = False,
) -> int:
    """Write a folder a model: opset 18 and fused, float16, int8, proven, with card and manifest."""
    names = [info(name).name for name in models or ()]
    if not names or all or filter:
        names = select(names[0] if names else None, all, filter or ())
    if weights not in ("auto", "random") and ":" not in weights and len(set(names)) > 1:
        raise BadRequest(f"--weights {weights} is one checkpoint for {len(names)} models.")
    plans = read_plans(names, out, variant or (), weights, size, input, force, offline)
    outcomes = run(plans, jobs, memory, scheduler)
    if json:
        from zoo.manifest import to_text

        print(to_text([record(outcome) for outcome in outcomes]), end="")
    else:
        from zoo.tables import show_builds

        show_builds(outcomes)
    return max(outcome.code for outcome in outcomes)


def read_plans(
    names: list[str],
    out: Path,
    variants: Sequence[str],
    weights: str,
    size: str | None,
    input: Input,
    force: bool,
    offline: bool,
) -> list[Plan]:
    """A plan a model. **Raises** a `ZooError` for the first option that makes no sense."""
    from zoo.build.plan import Plan
    from zoo.build.variants import read_variants

    chosen = read_variants(variants)
    # Workers may have another working folder.
    folder = out.absolute()
    choice = read_weights(weights)
    options = Options(size=size or ("dynamic" if input == "float32" else None), input=input)
    return [
        Plan(
            model=name,
            folder=folder / name,
            weights=choice.absolute() if isinstance(choice, Path) else choice,
            signature=read_signature(info(name), options),
            variants=chosen,
            force=force,
            offline=offline,
        )
        for name in dict.fromkeys(names)
    ]


def run(plans: list[Plan], jobs: int, memory: float | None, scheduler: str | None) -> list[Outcome]:
    """Build them all, where the options say."""
    from psutil import virtual_memory

    from zoo.build import pools, schedule
    from zoo.build.lines import board

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
