"""`zoo weights`: inspect, convert and download checkpoints."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.console import progress_bar, warn_nonfinite
from zoo.registry.lookup import info

app = typer.Typer(help="Checkpoints: inspect, convert, download them.", no_args_is_help=True)

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


@app.command("download")
def download_checkpoints(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Names or aliases.")],
    out: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="A folder for them, not the cache.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be fetched, and from where.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Bring the checkpoint that `--weights auto` would use to this machine."""
    from zoo.checkpoints.download import download

    with progress_bar() as progress:
        brought = [download(info(model), out, dry_run, progress) for model in models]
    if as_json:
        print(json.dumps([asdict(item) for item in brought], indent=2, default=str))
        return
    for item in brought:
        how = f"{'to fetch: ' if dry_run else ''}{item.bytes / 1e6:,.1f} MB from {item.source}"
        print(f"{item.model}: {item.path} ({how if item.bytes else 'already there'})")
