"""`zoo export MODEL`, or `python -m zoo.export MODEL`: a model as a verified ONNX file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Annotated

import typer

from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import AskedWeights, GivenCheckpoint
from zoo.cli.command_options import (
    All,
    DryRun,
    Filter,
    Json,
    SpreadOpsets,
    examples,
    model_names,
    options_of,
)
from zoo.cli.console import print_result, progress_bar, tell_recognised, warn_nonfinite
from zoo.cli.dry_run import foresee
from zoo.common.errors import BadRequest
from zoo.export.request import Options, plan_files
from zoo.registry.lookup import info, select

FIRST_WEIGHTS = {"vit_digits": "auto", "dinov3_vits16": "random"}
"""What is exported where no model was named, and with which weights: neither needs a network."""

EXAMPLES = examples(
    "zoo export dinov3_vits16",
    "zoo export dinov3_vitb16 --opset 18,23 --size 256x384 --out exports/",
    "zoo export --filter 'siglip2_*,tips_*' --precision fp16 --dry-run",
)

MODELS = (
    "Names or aliases of models; `zoo list` shows them. Without any, vit_digits is exported with "
    "the trained weights of this package, and dinov3_vits16 with random ones."
)


@options_of(AskedWeights, Options)
def export(
    asked: AskedWeights,
    options: Options,
    models: Annotated[Sequence[str], model_names(MODELS)] = (),
    all: All = False,
    filter: Filter = (),
    dry_run: DryRun = False,
    json: Json = False,
) -> int:
    """Write models as ONNX files, and check each in ONNX Runtime against JAX.

    A file is called MODEL-opset23.onnx, and its manifest MODEL-opset23.manifest.json.
    """
    chosen, weights, out = asked.choice, asked.weights, options.out
    options = replace(options, weights=chosen)
    # A misspelt name should not wait for JAX to load.
    if models or all or filter:
        jobs = [(info(each), options) for each in select(models, all, filter)]
    elif isinstance(chosen, GivenCheckpoint):
        jobs = [(tell_recognised(chosen), options)]
    elif weights != "auto":
        raise BadRequest(
            f"--weights {weights} is about one model and none was named: name one (`zoo list` "
            "shows them), or ask for --all."
        )
    else:
        jobs = [(info(each), replace(options, weights=own)) for each, own in FIRST_WEIGHTS.items()]
    if len(jobs) > 1 and out is not None and out.suffix == ".onnx":
        raise BadRequest(f"--out {out} names one file for many: name a folder instead.")
    if dry_run:
        plans = {entry.name: partial(plan_files, entry, options) for entry, options in jobs}
        return foresee(
            plans, options.offline, json, "each file gets a manifest beside it, in .json"
        )
    if len(jobs) == 1:
        return export_one(*jobs[0], json)
    return export_many(jobs, json)


def export_one(entry: ModelInfo, options: Options, json: bool) -> int:
    """Export a model and show the result."""
    from zoo.export import run as pipeline

    plan = plan_files(entry, options)
    with progress_bar() as progress:
        outcome = pipeline.run_export(plan, progress)
    # Its imports take a while, in which the checkpoint is read already.
    from zoo.cli.tables.export_table import show_export

    warn_nonfinite(outcome.nonfinite)
    print_result(json, outcome, partial(show_export, plan), lambda done: done.manifests)
    return outcome.code


def export_many(jobs: Sequence[tuple[ModelInfo, Options]], json: bool) -> int:
    """Export one model after the other, whatever becomes of the others, and sum up."""
    from zoo.cli.tables.export_table import show_outcomes
    from zoo.export.bulk import run_bulk

    with progress_bar() as progress:
        outcomes = run_bulk(jobs, progress)
    print_result(json, outcomes, show_outcomes, lambda done: [each.record for each in done])
    return max(outcome.code for outcome in outcomes)


app = typer.Typer(add_completion=False)
"""`python -m zoo.export`, which is this command alone; shells complete only `zoo`."""

app.command(cls=SpreadOpsets, epilog=EXAMPLES)(export)
