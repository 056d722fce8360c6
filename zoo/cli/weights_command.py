"""`zoo weights`: inspect, convert and download checkpoints."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.checkpoints.source import ADAPTER_BASE, TAKE, WITHOUT_HEAD, GivenCheckpoint
from zoo.cli.command_options import DryRun, derive_options, examples, model_names
from zoo.cli.console import CommandResult, command_progress, show_group_help, warn_nonfinite
from zoo.common.options import FORCE, Option, argument, flag, out_folder_option
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
    "The model. It is needed only if the checkpoint fits several.",
    models=True,
)
MIRROR = "Use a known copy that somebody else than the publisher offers."
Source = Annotated[Path, argument("SRC", "A checkpoint: a file or a folder.")]
Target = Annotated[Path, argument("DST", TARGET)]

MAX_PRINTED_TENSORS = 1000
"""The largest number of tensors of a checkpoint that are printed."""


@app.command("inspect", epilog=examples("zoo weights inspect model.safetensors"))
@derive_options()
def inspect_checkpoint(
    file: Source,
    take: Annotated[str, TAKE] = "",
    base: Annotated[Path | None, ADAPTER_BASE] = None,
) -> CommandResult["Inspection"]:
    """Show the format of a checkpoint, the models that it fits and the tensors that it contains."""
    from zoo.checkpoints.identify import summarize_checkpoint

    inspection = summarize_checkpoint(GivenCheckpoint(file, take, base=base))
    return CommandResult(inspection, inspection_blocks, partial(inspection_record, file))


def inspection_record(file: Path, inspection: "Inspection") -> dict[str, Any]:
    """Return the facts about a checkpoint at the path `file` as `--json` prints them."""
    checkpoint = inspection.checkpoint
    shapes = {key: {"dtype": t.dtype, "shape": t.shape} for key, t in checkpoint.tensors.items()}
    names = {"path": file, "container": checkpoint.container, "tensors": shapes}
    return vars(inspection) | {"checkpoint": names, "naming": inspection.naming.name}


def inspection_blocks(inspection: "Inspection") -> "Iterator[Block]":
    """Yield what is printed about a checkpoint: its facts, then its tensors.

    At most `MAX_PRINTED_TENSORS` tensors are listed.
    """
    from zoo.cli.tables import Facts

    checkpoint, tensors = inspection.checkpoint, inspection.checkpoint.tensors
    facts = {
        "container": checkpoint.container,
        "names": inspection.naming.title,
        "fits": " or ".join(inspection.models) or inspection.network or "no model of the zoo",
        **({"what it is": inspection.mismatch} if inspection.mismatch else {}),
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
    for key, tensor in list(tensors.items())[:MAX_PRINTED_TENSORS]:
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
    """Write a checkpoint in the format of another library."""
    from zoo.checkpoints.convert import convert_file

    with command_progress() as progress:
        checkpoint = GivenCheckpoint(source, take, without_head, base=base)
        conversion = convert_file(checkpoint, target, model, force, progress)
    warn_nonfinite(conversion.nonfinite)
    return CommandResult(conversion, conversion_blocks, conversion_record)


def conversion_record(conversion: "ConversionResult") -> dict[str, Any]:
    """Return the result of a conversion as `--json` prints it."""
    return vars(conversion) | {"naming": conversion.naming.name}


def conversion_blocks(conversion: "ConversionResult") -> "Iterator[Block]":
    """Yield what is printed about a conversion: the written file and its differences.

    The differences are tensors that the source lacks, that the format has no names for, or that
    were rounded.
    """
    yield f"{conversion.target} was written: {conversion.model} for {conversion.naming.title}"
    if conversion.filled:
        yield f"not in the source, written as initialised: {', '.join(conversion.filled)}"
    if conversion.dropped:
        omitted = f" and {len(conversion.dropped) - 3} more" if len(conversion.dropped) > 3 else ""
        yield (
            "not written, because the format has no name for them: "
            f"{', '.join(conversion.dropped[:3])}{omitted}"
        )
    if conversion.rounded:
        yield f"rounded to bfloat16, as in the published files: {', '.join(conversion.rounded)}"


@app.command("download", epilog=examples("zoo weights download dinov3_vits16 --dry-run"))
@derive_options()
def download_checkpoints(
    models: Annotated[Sequence[str], model_names("Names or aliases of models.")],
    out: Annotated[Path | None, out_folder_option("the cache")] = None,
    mirror: Annotated[bool, flag(MIRROR)] = False,
    dry_run: DryRun = False,
) -> CommandResult[list["DownloadedCheckpoint"]]:
    """Download the checkpoint that `--weights auto` would use."""
    from zoo.checkpoints.download import download_checkpoint

    with command_progress() as progress:
        downloads = [
            download_checkpoint(info(name), out, mirror, dry_run, progress) for name in models
        ]
    return CommandResult(downloads, partial(download_lines, dry_run=dry_run))


def download_lines(downloads: list["DownloadedCheckpoint"], dry_run: bool) -> "Iterator[Block]":
    """Yield what is printed about downloads: a line for each checkpoint.

    With `dry_run` nothing was downloaded, and the lines say what would be.
    """
    for item in downloads:
        transfer = f"{'to fetch: ' if dry_run else ''}{item.bytes / 1e6:,.1f} MB from {item.source}"
        yield f"{item.model}: {item.path} ({transfer if item.bytes else 'already there'})"
