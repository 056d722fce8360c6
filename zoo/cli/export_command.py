"""`zoo export MODEL` and `python -m zoo.export MODEL`: write a model as a verified ONNX file."""

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
    OpsetCommand,
    derive_options,
    examples,
    model_names,
)
from zoo.cli.console import CommandResult, announce_checkpoint, command_progress, warn_nonfinite
from zoo.cli.dry_run import preview_plans
from zoo.common.errors import BadRequest
from zoo.export.request import Options, plan_files
from zoo.registry.lookup import info, select_models

if TYPE_CHECKING:
    from zoo.export.exporter import Outcome

DEFAULT_MODELS = {"vit_digits": "auto", "dinov3_vits16": "random"}
"""The models that are exported if none is named, with their weights. Neither needs a download."""

EXAMPLES = examples(
    "zoo export dinov3_vits16",
    "zoo export dinov3_vitb16 --opset 18,23 --size 256x384 --out exports/",
    "zoo export --filter 'siglip2_*,tips_*' --precision fp16 --dry-run",
)

MODELS = (
    "Names or aliases of models; `zoo list` shows them. Without a name, vit_digits is exported "
    "with the trained weights in this package, and dinov3_vits16 with random weights."
)


@derive_options(WeightsOptions, Options)
def export(
    request: WeightsOptions,
    options: Options,
    models: Annotated[Sequence[str], model_names(MODELS)] = (),
    all: All = False,
    filter: Filter = (),
    dry_run: DryRun = False,
) -> CommandResult[Any]:
    """Write models as ONNX files, and check each in ONNX Runtime against JAX.

    A file is called MODEL-opset23.onnx, and its manifest MODEL-opset23.manifest.json.
    """
    choice, weights, out = request.choice, request.weights, options.out
    options = replace(options, weights=choice)
    # Names are checked before JAX is imported, so that a misspelt name fails at once.
    if models or all or filter:
        jobs = [(info(name), options) for name in select_models(models, all, filter)]
    elif isinstance(choice, GivenCheckpoint):
        entry, opened = announce_checkpoint(choice)
        jobs = [(entry, replace(options, weights=opened))]
    elif weights != "auto":
        raise BadRequest(
            f"--weights {weights} needs the name of a model: add one (`zoo list` shows them), or "
            "take all models with --all."
        )
    else:
        jobs = [
            (info(name), replace(options, weights=source))
            for name, source in DEFAULT_MODELS.items()
        ]
    if len(jobs) > 1 and out is not None and out.suffix == ".onnx":
        raise BadRequest(f"--out {out} is one file for {len(jobs)} models: name a folder instead.")
    if dry_run:
        plans = {entry.name: partial(plan_files, entry, options) for entry, options in jobs}
        return preview_plans(plans, options.offline, "each file gets a .json manifest next to it")
    return export_one(*jobs[0]) if len(jobs) == 1 else export_many(jobs)


def export_one(entry: ModelInfo, options: Options) -> "CommandResult[Outcome]":
    """Export one model and return its outcome as the result of the command."""
    from zoo.export import run as pipeline

    plan = plan_files(entry, options)
    with command_progress() as progress:
        outcome = pipeline.run_export(plan, progress)
    # Import these modules late, so that the checkpoint is read before.
    from zoo.cli.tables.export_table import export_blocks

    warn_nonfinite(outcome.nonfinite)
    blocks = partial(export_blocks, plan)
    return CommandResult(outcome, blocks, lambda outcome: outcome.manifests, outcome.exit_code)


def export_many(jobs: Sequence[tuple[ModelInfo, Options]]) -> "CommandResult[list[Outcome]]":
    """Export models one after the other, and return their outcomes as the result of the command.

    `jobs` are the models with their options. A failed export does not stop the next ones. The exit
    code is the highest of all.
    """
    from zoo.cli.tables.export_table import outcome_blocks
    from zoo.export.bulk import export_models

    with command_progress() as progress:
        outcomes = export_models(jobs, progress)
    code = max(outcome.exit_code for outcome in outcomes)
    return CommandResult(
        outcomes, outcome_blocks, lambda outcomes: [outcome.record for outcome in outcomes], code
    )


app = typer.Typer(add_completion=False)
"""The command of `python -m zoo.export`, without completion of a shell, which only `zoo` offers."""

app.command(cls=OpsetCommand, epilog=EXAMPLES)(export)
