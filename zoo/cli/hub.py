"""`zoo pull` and `zoo push`: built folders from a hub and to one."""

from pathlib import Path
from typing import Annotated

import typer

from zoo.cli.console import progress_bar
from zoo.registry.lookup import info


def pull(
    model: Annotated[str, typer.Argument(help="Name or alias.")],
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="fp32|fused|fp16|int8|bf16|all",
            help="fp32 by default, which runs everywhere; may be repeated.",
        ),
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit; the newest by default.")
    ] = None,
    dest: Annotated[Path | None, typer.Option(help="Folder; ./MODEL by default.")] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only use what was downloaded before.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that differ.")] = False,
) -> None:
    """Download files that are ready: ONNX, preprocessing, expected outputs; all checked."""
    from zoo.hub.pull import Wanted
    from zoo.hub.pull import pull as bring

    name = info(model).name
    folder = dest or Path(name)
    wanted = Wanted(name, tuple(variant or ("fp32",)), folder, revision, offline, force)
    with progress_bar() as progress:
        pulled = bring(wanted, progress)
    print(f"{folder}: {pulled.brought} files from {pulled.where}, {pulled.kept} were there already")
    for label, item in pulled.variants.items():
        print(f"{label}: {folder / item.file}")


def push(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that was built.")],
    repo: Annotated[str, typer.Option(metavar="OWNER/NAME", help="The repository on the hub.")],
    apply: Annotated[
        bool, typer.Option("--apply", help="Do it; without, only say what would be done.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="If the repository has to be created.")
    ] = False,
    revision: Annotated[str, typer.Option(metavar="BRANCH", help="Where to commit.")] = "main",
) -> None:
    """Upload a verified folder to a hub, as one commit. A dry run unless --apply is given."""
    from zoo.cli.tables.push import show_plan
    from zoo.hub.push import Target, commit, plan

    with progress_bar() as progress:
        planned = plan(folder, Target(repo, revision, private), progress)
    show_plan(planned)
    if apply:
        print(f"committed: {commit(planned)}")
    else:
        print("nothing was uploaded: add --apply to do it")
