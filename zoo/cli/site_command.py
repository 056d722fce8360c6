"""`zoo site FOLDER…`: write a catalogue with a demo, for any web server."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.options import FORCE, Option, argument, out_folder_option

if TYPE_CHECKING:
    from zoo.apps.site.write import Site

FOLDERS = argument("FOLDER", "Folders of `zoo build` or `zoo pull`.")
RUNTIME = Option(
    "PATH",
    "The package onnxruntime-web, as npm's archive or unpacked.",
    default="downloaded with npm",
)
TRANSFORMERS = Option(
    "PATH",
    "The package @huggingface/transformers, as npm's archive or unpacked.",
    default="downloaded with npm",
)
SITE_DATASET = Option(
    "FOLDER", "A small dataset that `zoo embed` made with one of the models, for a search page."
)


@derive_options()
def site(
    folders: Annotated[Sequence[Path], FOLDERS],
    out: Annotated[Path, out_folder_option(True)] = Path("catalogue"),
    runtime: Annotated[Path | None, RUNTIME] = None,
    transformers: Annotated[Path | None, TRANSFORMERS] = None,
    dataset: Annotated[Path | None, SITE_DATASET] = None,
    force: Annotated[bool, FORCE] = False,
) -> CommandResult["Site"]:
    """Write a static site for built folders: a catalogue, a page for each model, and a demo.

    The demo runs in the visitor's browser. Any web server can host the folder.
    """
    from zoo.apps.site.write import write_site

    with command_progress() as progress:
        result = write_site(folders, out, runtime, force, progress, transformers, dataset)
    return CommandResult(result, _blocks)


def _blocks(result: "Site") -> Iterator[str]:
    """Yield what is printed about a site: a summary, and the command that serves it."""
    rows = result.catalogue.rows
    models = len({row.model for row in rows})
    yield (
        f"{result.folder}: {len(rows)} ONNX files of {models} model{'s' * (models > 1)}, "
        f"{result.bytes / 1e6:.1f} MB; pages, styles and programs are "
        f"{result.own_bytes / 1e3:.0f} kB"
    )
    yield f"look at it: python -m http.server --directory {result.folder} --bind 127.0.0.1"
