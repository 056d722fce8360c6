"""`zoo weights`: inspect and convert checkpoints."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.console import progress_bar, warn_nonfinite

app = typer.Typer(help="Checkpoints: inspect them, convert them.", no_args_is_help=True)

Source = Annotated[Path, typer.Argument(help="A checkpoint: file or folder.")]


@app.command("inspect")
def inspect_checkpoint(file: Source) -> None:
    """Say what a checkpoint is, which model it fits and what it holds."""
    from zoo.checkpoints.inspect import inspect
    from zoo.cli.tables.results import show_inspection

    show_inspection(inspect(file))


@app.command("convert")
def convert_checkpoint(
    source: Source,
    target: Annotated[
        Path,
        typer.Argument(help="NAME.pth (Meta), .tar.lz4 (Equimo), .eqx, or a folder (HF)."),
    ],
    model: Annotated[
        str | None, typer.Option(help="Where a checkpoint fits several models.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace what is there.")] = False,
) -> None:
    """Write a checkpoint as another library wants it."""
    from zoo.checkpoints.convert import convert
    from zoo.cli.tables.results import show_converted

    with progress_bar() as progress:
        converted = convert(source, target, model, force, progress)
    show_converted(converted)
    warn_nonfinite(converted.nonfinite)
