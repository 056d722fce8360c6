"""`zoo site FOLDER…`: a catalogue with a demo, for any web server."""

from pathlib import Path
from typing import Annotated

import typer

from weights.terminal import say
from zoo.cli import options
from zoo.cli.console import print_json, progress_bar

FOLDERS = typer.Argument(metavar="FOLDER", help="Folders of `zoo build` or `zoo pull`.")
RUNTIME = options.value(
    "PATH",
    "The package onnxruntime-web, as npm's archive or unpacked.",
    show_default="npm is asked for it",
)
TOKENIZERS = options.value(
    "PATH",
    "The package @huggingface/tokenizers, for models that take texts; as --runtime.",
    show_default="npm is asked for it",
)
DATASET = options.value(
    "FOLDER", "A small dataset of `zoo embed`, by one of the models, to be searched on a page."
)


def site(
    folders: Annotated[list[Path], FOLDERS],
    out: Annotated[Path, options.out(True)] = Path("catalogue"),
    runtime: Annotated[Path | None, RUNTIME] = None,
    tokenizers: Annotated[Path | None, TOKENIZERS] = None,
    dataset: Annotated[Path | None, DATASET] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Make a static site of built folders: a catalogue, a page for each model, and a demo.

    The demo runs on the visitor's own machine. Any web server can host the folder.
    """
    from zoo.site.write import write_site

    with progress_bar() as progress:
        made = write_site(folders, out, runtime, force, progress, tokenizers, dataset)
    if json:
        return print_json(made)
    rows = made.catalogue.rows
    models = len({row.model for row in rows})
    say(
        f"{made.folder}: {len(rows)} ONNX files of {models} model{'s' * (models > 1)}, "
        f"{made.bytes / 1e6:.1f} MB; pages, styles and programs are {made.own_bytes / 1e3:.0f} kB"
    )
    say(f"look at it: python -m http.server --directory {made.folder} --bind 127.0.0.1")
