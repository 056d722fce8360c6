"""`zoo export MODEL`, or `python -m zoo.export MODEL`: a model as a verified ONNX file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.architectures.entry import ModelInfo
from zoo.checkpoints.source import GivenCheckpoint, WeightsOptions
from zoo.cli.command_options import (
    All,
    DryRun,
    Filter,
    SpreadOpsets,
    examples,
    model_names,
    options_of,
)
from zoo.cli.console import CommandResult, progress_bar, tell_recognised, warn_nonfinite
from zoo.cli.dry_run import foresee
from zoo.common.errors import BadRequest
from zoo.export.request import Options, plan_files
from zoo.registry.lookup import info, select

if TYPE_CHECKING:
    from zoo.export.exporter import Outcome

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


@options_of(WeightsOptions, Options)
def export(
    asked: WeightsOptions,
    options: Options,
    models: Annotated[Sequence[str], model_names(MODELS)] = (),
    all: All = False,
    filter: Filter = (),
    dry_run: DryRun = False,
) -> CommandResult[Any]:
    """Write models as ONNX files, and check each in ONNX Runtime against JAX.

    A file is called MODEL-opset23.onnx, and its manifest MODEL-opset23.manifest.json.
    """
    chosen, weights, out = asked.choice, asked.weights, options.out
    options = replace(options, weights=chosen)
    # A misspelt name should not wait for JAX to load.
    if models or all or filter:
        jobs = [(info(each), options) for each in select(models, all, filter)]
    elif isinstance(chosen, GivenCheckpoint):
        entry, opened = tell_recognised(chosen)
        jobs = [(entry, replace(options, weights=opened))]
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
        return foresee(plans, options.offline, "each file gets a manifest beside it, in .json")
    return export_one(*jobs[0]) if len(jobs) == 1 else export_many(jobs)


def export_one(entry: ModelInfo, options: Options) -> "CommandResult[Outcome]":
    """Export a model."""
    from zoo.export import run as pipeline

    plan = plan_files(entry, options)
    with progress_bar() as progress:
        outcome = pipeline.run_export(plan, progress)
    # Its imports take a while, in which the checkpoint is read already.
    from zoo.cli.tables.export_table import export_blocks

    warn_nonfinite(outcome.nonfinite)
    blocks = partial(export_blocks, plan)
    return CommandResult(outcome, blocks, lambda done: done.manifests, outcome.code)


def export_many(jobs: Sequence[tuple[ModelInfo, Options]]) -> "CommandResult[list[Outcome]]":
    """Export one model after the other, whatever becomes of the others, and sum up."""
    from zoo.cli.tables.export_table import outcome_blocks
    from zoo.export.bulk import export_models

    with progress_bar() as progress:
        outcomes = export_models(jobs, progress)
    code = max(outcome.code for outcome in outcomes)
    return CommandResult(
        outcomes, outcome_blocks, lambda done: [each.record for each in done], code
    )


app = typer.Typer(add_completion=False)
"""`python -m zoo.export`, which is this command alone; shells complete only `zoo`."""

app.command(cls=SpreadOpsets, epilog=EXAMPLES)(export)
