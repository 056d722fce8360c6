"""`zoo pull MODEL`: a built folder from a hub."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import DryRun, Json, Model, Revision, options_of
from zoo.cli.console import progress_bar
from zoo.cli.results import Part, Table, print_result
from zoo.common.options import FORCE, OFFLINE, out_folder
from zoo.export.assemble.plan import variant_names
from zoo.registry.lookup import info

if TYPE_CHECKING:
    from zoo.artifacts.pull import Preview, PullResult


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
    parts = (
        preview_parts(folder, result)
        if isinstance(result, hub.Preview)
        else pulled_parts(folder, result)
    )
    record = {"model": name, "folder": folder}
    print_result(json, result, lambda _: parts, lambda result: record | vars(result))


def pulled_parts(folder: Path, result: "PullResult") -> Iterator[Part]:
    """Yield what was downloaded."""
    from zoo.cli.tables import counted

    brought = f"brought {counted(result.brought, 'file')} from {result.where}"
    yield f"{folder}: {brought}, {counted(result.kept, 'file')} kept"
    for label, item in result.variants.items():
        yield f"{label}: {folder / item.file}"


def preview_parts(folder: Path, preview: "Preview") -> Iterator[Part]:
    """Yield what would be downloaded."""
    from zoo.cli.tables import counted

    sizes = [*((file.name, file.bytes) for file in preview.missing), ("total", preview.bytes)]
    yield Table(("~file", ">bytes"), [(name, f"{size:,}") for name, size in sizes])
    yield f"{folder}: from {preview.where}; {counted(preview.kept, 'file')} kept"
    yield "nothing was downloaded: leave out --dry-run to do it"
