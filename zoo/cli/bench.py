"""`zoo bench FILE…`: how fast files are beside each other."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from zoo.cli.console import progress_bar


def bench(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Any .onnx files.")],
    batch: Annotated[int | None, typer.Option(min=1, help="Where it is open; 1.")] = None,
    size: Annotated[
        str | None,
        typer.Option(metavar="N|HxW", help="Where it is open; the manifest's, or 224."),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="Of each run.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Of one run each, in random order.")] = 20,
    against: Annotated[
        Literal["torch"] | None, typer.Option(help="transformers' model as well, random weights.")
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print everything as JSON and nothing else.")
    ] = False,
) -> None:
    """Time files in interleaved rounds, next to each other and to their matrix products alone."""
    from zoo.bench import measure
    from zoo.bench.inputs import read_size
    from zoo.cli.tables.bench import record, show_bench
    from zoo.manifest.text import to_text

    options = measure.Options(batch, read_size(size), threads, rounds, against == "torch")
    with progress_bar() as progress:
        found = measure.bench(files, options, progress)
    if json:
        print(to_text(record(found)), end="")
    else:
        show_bench(found)
