"""`zoo pull MODEL`: a built folder from a hub."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import DryRun, Model, Revision, derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.options import FORCE, OFFLINE, out_folder_option
from zoo.export.assemble.plan import variant_option
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from zoo.artifacts.pull import PullPreview, PullResult
    from zoo.cli.tables import Block


@derive_options()
def pull(
    model: Model,
    variant: Annotated[Sequence[str], variant_option("fp32, which most runtimes run")] = (),
    out: Annotated[Path | None, out_folder_option("./MODEL")] = None,
    revision: Revision = None,
    force: Annotated[bool, FORCE] = False,
    offline: Annotated[bool, OFFLINE] = False,
    dry_run: DryRun = False,
) -> CommandResult["PullPreview | PullResult"]:
    """Download ready-made ONNX files, and check every byte of them.

    Preprocessing, a photograph and expected outputs come along.
    """
    from zoo.artifacts import pull as hub

    name = info(model).name
    folder = out or Path(name)
    request = hub.PullRequest(name, tuple(variant or ("fp32",)), folder, revision, offline, force)
    with command_progress() as progress:
        result = (
            hub.preview_pull(request, progress) if dry_run else hub.pull_folder(request, progress)
        )
    return CommandResult(
        result,
        partial(pull_blocks, folder),
        lambda result: {"model": name, "folder": folder} | vars(result),
    )


def pull_blocks(folder: Path, result: "PullPreview | PullResult") -> "Iterator[Block]":
    """Yield what is printed about a download: the number of files and the paths of the variants.

    For a preview, this is a table of the files that would be downloaded. `folder` is the folder
    that they are written to.
    """
    from zoo.artifacts.pull import PullPreview
    from zoo.cli.tables import Table, count_noun

    if isinstance(result, PullPreview):
        sizes = [*((file.name, file.bytes) for file in result.missing), ("total", result.bytes)]
        yield Table(("~file", ">bytes"), [(name, f"{size:,}") for name, size in sizes])
        yield f"{folder}: from {result.where}; {count_noun(result.kept, 'file')} kept"
        yield "nothing was downloaded: leave out --dry-run to do it"
        return
    downloaded = f"brought {count_noun(result.brought, 'file')} from {result.where}"
    yield f"{folder}: {downloaded}, {count_noun(result.kept, 'file')} kept"
    for label, item in result.variants.items():
        yield f"{label}: {folder / item.file}"
