"""`zoo pull MODEL`: a built folder from a hub."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import DryRun, Json, Model, Revision, options_of
from zoo.cli.console import print_json, progress_bar
from zoo.common.options import FORCE, OFFLINE, out_folder
from zoo.common.terminal import say
from zoo.export.assemble.plan import variant_names
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from zoo.artifacts.pull import Preview


@options_of()
def pull(
    model: Model,
    variant: Annotated[Sequence[str], variant_names("fp32, which most runtimes run")] = (),
    out: Annotated[Path | None, out_folder("./MODEL")] = None,
    revision: Revision = None,
    force: Annotated[bool, FORCE] = False,
    offline: Annotated[bool, OFFLINE] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Download ready-made ONNX files, and check every byte of them.

    Preprocessing, a photograph and expected outputs come along.
    """
    from zoo.artifacts import pull as hub

    name = info(model).name
    folder = out or Path(name)
    request = hub.PullSpec(name, tuple(variant or ("fp32",)), folder, revision, offline, force)
    with progress_bar() as progress:
        result = hub.preview(request, progress) if dry_run else hub.pull_folder(request, progress)
    if json:
        print_json({"model": name, "folder": folder} | vars(result))
    elif isinstance(result, hub.Preview):
        show_preview(folder, result)
    else:
        from zoo.cli.tables import counted

        brought = f"brought {counted(result.brought, 'file')} from {result.where}"
        say(f"{folder}: {brought}, {counted(result.kept, 'file')} kept")
        for label, item in result.variants.items():
            say(f"{label}: {folder / item.file}")


def show_preview(folder: Path, preview: "Preview") -> None:
    """Say what would be downloaded."""
    from zoo.cli.tables import counted, print_table

    sizes = [*((file.name, file.bytes) for file in preview.missing), ("total", preview.bytes)]
    print_table(("~file", ">bytes"), [(name, f"{size:,}") for name, size in sizes])
    say(f"{folder}: from {preview.where}; {counted(preview.kept, 'file')} kept")
    say("nothing was downloaded: leave out --dry-run to do it")
