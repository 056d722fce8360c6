"""`zoo pull MODEL`: a built folder from a hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from weights.terminal import say
from zoo.cli import options
from zoo.cli.console import print_json, progress_bar
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from zoo.hub.pull import Preview


def pull(
    model: options.Model,
    variant: Annotated[list[str] | None, options.variants("fp32, which most runtimes run")] = None,
    out: Annotated[Path | None, options.out("./MODEL")] = None,
    revision: options.Revision = None,
    force: options.Force = False,
    offline: options.Offline = False,
    dry_run: options.DryRun = False,
    json: options.Json = False,
) -> None:
    """Download ready-made ONNX files, and check every byte of them.

    Preprocessing, a photograph and expected outputs come along.
    """
    from zoo.hub import pull as hub

    name = info(model).name
    folder = out or Path(name)
    wanted = hub.Wanted(name, tuple(variant or ("fp32",)), folder, revision, offline, force)
    with progress_bar() as progress:
        found = hub.preview(wanted, progress) if dry_run else hub.pull_folder(wanted, progress)
    if json:
        print_json({"model": name, "folder": folder} | vars(found))
    elif isinstance(found, hub.Preview):
        show_preview(folder, found)
    else:
        from zoo.cli.tables import counted

        brought = f"brought {counted(found.brought, 'file')} from {found.where}"
        say(f"{folder}: {brought}, {counted(found.kept, 'file')} kept")
        for label, item in found.variants.items():
            say(f"{label}: {folder / item.file}")


def show_preview(folder: Path, found: Preview) -> None:
    """Say what would be downloaded."""
    from zoo.cli.tables import counted, print_table

    sizes = [*((file.name, file.bytes) for file in found.missing), ("total", found.bytes)]
    print_table(("~file", ">bytes"), [(name, f"{size:,}") for name, size in sizes])
    say(f"{folder}: from {found.where}; {counted(found.kept, 'file')} kept")
    say("nothing was downloaded: leave out --dry-run to do it")
