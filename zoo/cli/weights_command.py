"""`zoo weights`: inspect, convert and download checkpoints."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.checkpoints.source import ADAPTER_BASE, TAKE, WITHOUT_HEAD, GivenCheckpoint
from zoo.cli.command_options import DryRun, examples, model_names, derive_options
from zoo.cli.console import CommandResult, show_group_help, progress_bar, warn_nonfinite
from zoo.common.options import FORCE, Option, argument, flag, out_folder
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from zoo.checkpoints.convert import ConversionResult
    from zoo.checkpoints.download import DownloadedCheckpoint
    from zoo.checkpoints.identify import Inspection
    from zoo.cli.tables import Block

app = typer.Typer(help="Inspect, convert and download checkpoints.")
app.callback(invoke_without_command=True)(show_group_help)

TARGET = "What to write: NAME.pth for Meta, NAME.tar.lz4 for Equimo, NAME.eqx for "
TARGET += "Equinox, or a folder for Hugging Face."
MODEL = Option(
    "MODEL",
    "The model, which has to be named where a checkpoint fits several.",
    models=True,
)
MIRROR = "Take a copy that somebody else than the publisher keeps, where one is known."
Source = Annotated[Path, argument("SRC", "A checkpoint: a file or a folder.")]
Target = Annotated[Path, argument("DST", TARGET)]

MOST_TENSORS = 1000
"""Lines of tensors that are shown."""


@app.command("inspect", epilog=examples("zoo weights inspect model.safetensors"))
@derive_options()
def inspect_checkpoint(
    file: Source,
    take: Annotated[str, TAKE] = "",
    base: Annotated[Path | None, ADAPTER_BASE] = None,
) -> CommandResult["Inspection"]:
    """Say what a checkpoint is, which models it fits and what it holds."""
    from zoo.checkpoints.identify import inspect

    found = inspect(GivenCheckpoint(file, take, base=base))
    return CommandResult(found, inspection_blocks, partial(inspection_record, file))


def inspection_record(file: Path, inspection: "Inspection") -> dict[str, Any]:
    """What a checkpoint is, for JSON."""
    checkpoint = inspection.checkpoint
    shapes = {key: {"dtype": t.dtype, "shape": t.shape} for key, t in checkpoint.tensors.items()}
    names = {"path": file, "container": checkpoint.container, "tensors": shapes}
    return vars(inspection) | {"checkpoint": names, "naming": inspection.naming.name}


def inspection_blocks(inspection: "Inspection") -> "Iterator[Block]":
    """What a checkpoint is, then its tensors."""
    from zoo.cli.tables import Facts

    checkpoint, tensors = inspection.checkpoint, inspection.checkpoint.tensors
    facts = {
        "container": checkpoint.container,
        "names": inspection.naming.title,
        "fits": " or ".join(inspection.models) or inspection.network or "no model of the zoo",
        **({"what it is": inspection.strangeness} if inspection.strangeness else {}),
        **({"prefix": inspection.prefix} if inspection.prefix else {}),
        **(
            {"passed over": ", ".join(sorted({*inspection.objects.values()}))}
            if inspection.objects
            else {}
        ),
        "tensors": f"{len(tensors)}, {inspection.parameters:,} numbers",
        "types": ", ".join(f"{count} {dtype}" for dtype, count in inspection.dtypes.items()),
        "size": f"{inspection.bytes / 1e6:,.1f} MB",
        "rotary periods": inspection.periods,
    }
    yield Facts(checkpoint.path.name, facts)
    for key, tensor in list(tensors.items())[:MOST_TENSORS]:
        name = key if key.isprintable() else ascii(key)
        yield f"{name}  {tensor.dtype} {list(tensor.shape)}"


@app.command("convert", epilog=examples("zoo weights convert dinov3.pth FOLDER"))
@derive_options()
def convert_checkpoint(
    source: Source,
    target: Target,
    model: Annotated[str | None, MODEL] = None,
    take: Annotated[str, TAKE] = "",
    without_head: Annotated[bool, WITHOUT_HEAD] = False,
    base: Annotated[Path | None, ADAPTER_BASE] = None,
    force: Annotated[bool, FORCE] = False,
) -> CommandResult["ConversionResult"]:
    """Write a checkpoint in the form that another library reads."""
    from zoo.checkpoints.convert import convert_file

    with progress_bar() as progress:
        asked = GivenCheckpoint(source, take, without_head, base=base)
        done = convert_file(asked, target, model, force, progress)
    warn_nonfinite(done.nonfinite)
    return CommandResult(done, conversion_blocks, conversion_record)


def conversion_record(done: "ConversionResult") -> dict[str, Any]:
    """What was written, for JSON."""
    return vars(done) | {"naming": done.naming.name}


def conversion_blocks(done: "ConversionResult") -> "Iterator[Block]":
    """What was written, and how it differs from its source."""
    yield f"{done.target} was written: {done.model} for {done.naming.title}"
    if done.filled:
        yield f"the source does not hold {', '.join(done.filled)}: written as initialised"
    if done.dropped:
        more = f" and {len(done.dropped) - 3} more" if len(done.dropped) > 3 else ""
        yield f"not written, for want of a place: {', '.join(done.dropped[:3])}{more}"
    if done.rounded:
        yield f"rounded to bfloat16, as published files have it: {', '.join(done.rounded)}"


@app.command("download", epilog=examples("zoo weights download dinov3_vits16 --dry-run"))
@derive_options()
def download_checkpoints(
    models: Annotated[Sequence[str], model_names("Names or aliases of models.")],
    out: Annotated[Path | None, out_folder("the cache")] = None,
    mirror: Annotated[bool, flag(MIRROR)] = False,
    dry_run: DryRun = False,
) -> CommandResult[list["DownloadedCheckpoint"]]:
    """Download the checkpoint that `--weights auto` would use."""
    from zoo.checkpoints.download import download_checkpoint

    with progress_bar() as progress:
        brought = [download_checkpoint(info(it), out, mirror, dry_run, progress) for it in models]
    return CommandResult(brought, partial(download_lines, dry_run=dry_run))


def download_lines(brought: list["DownloadedCheckpoint"], dry_run: bool) -> "Iterator[Block]":
    """A line for each checkpoint."""
    for item in brought:
        how = f"{'to fetch: ' if dry_run else ''}{item.bytes / 1e6:,.1f} MB from {item.source}"
        yield f"{item.model}: {item.path} ({how if item.bytes else 'already there'})"
