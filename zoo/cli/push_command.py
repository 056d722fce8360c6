"""`zoo push DIR`: a built folder to a hub."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import DryRun, Json, Revision, options_of
from zoo.cli.console import print_json, progress_bar
from zoo.common.options import Option, argument, flag
from zoo.common.terminal import say

if TYPE_CHECKING:
    from zoo.artifacts.push import PushPlan


@options_of()
def push(
    folder: Annotated[Path, argument("DIR", "A folder that was built.")],
    repo: Annotated[str, Option("OWNER/NAME", "The repository on the hub.")],
    revision: Revision = None,
    private: Annotated[bool, flag("Make the repository private if it has to be created.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Upload a verified folder to the hub as one commit."""
    from zoo.artifacts.pull import BRANCH
    from zoo.artifacts.push import PushTarget, commit, plan_push

    with progress_bar() as progress:
        planned = plan_push(folder, PushTarget(repo, revision or BRANCH, private), progress)
    if not json:
        show_plan(planned)
    page = None if dry_run else commit(planned)
    if json:
        print_json(vars(planned) | {"committed": page})
    else:
        say(f"committed: {page}" if page else "nothing was uploaded: leave out --dry-run to do it")


def show_plan(planned: "PushPlan") -> None:
    """Show the files and what becomes of them."""
    from zoo.cli.printed_tables import print_table

    target, total = planned.target, sum(row.bytes for row in planned.rows)
    rows = [(row.name, f"{row.bytes:,}", row.change) for row in planned.rows]
    print_table(("~file", ">bytes", "there"), [*rows, ("total", f"{total:,}", "")])
    say(f"{target.repository}, branch {target.branch}: {planned.state}")
    for name in planned.others:
        say(f"stays as it is: {name}")
