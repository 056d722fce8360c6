"""`zoo push DIR`: upload a built folder to a hub."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from zoo.cli.command_options import DryRun, Revision, derive_options
from zoo.cli.console import CommandResult, command_progress
from zoo.common.options import Option, argument, flag

if TYPE_CHECKING:
    from zoo.artifacts.push import PushPlan
    from zoo.cli.tables import Block


@derive_options()
def push(
    folder: Annotated[Path, argument("DIR", "A folder of `zoo build`.")],
    repo: Annotated[str, Option("OWNER/NAME", "The repository on the hub.")],
    revision: Revision = None,
    private: Annotated[bool, flag("Make the repository private if it has to be created.")] = False,
    dry_run: DryRun = False,
) -> CommandResult["PushPlan"]:
    """Upload a verified folder to the hub as one commit."""
    from zoo.artifacts.pull import DEFAULT_BRANCH
    from zoo.artifacts.push import PushTarget, commit_push, plan_push

    with command_progress() as progress:
        plan = plan_push(folder, PushTarget(repo, revision or DEFAULT_BRANCH, private), progress)
    page = None if dry_run else commit_push(plan)
    return CommandResult(
        plan, partial(push_blocks, page), lambda plan: vars(plan) | {"committed": page}
    )


def push_blocks(page: str | None, plan: "PushPlan") -> "Iterator[Block]":
    """Yield what is printed about an upload: a table of the files and their changes, and a summary.

    `page` is the address of the commit, or None if nothing was uploaded.
    """
    from zoo.cli.tables import Table

    target, total = plan.target, sum(row.bytes for row in plan.rows)
    rows = [(row.name, f"{row.bytes:,}", row.change) for row in plan.rows]
    yield Table(("~file", ">bytes", "there"), [*rows, ("total", f"{total:,}", "")])
    yield f"{target.repository}, branch {target.branch}: {plan.state}"
    for name in plan.others:
        yield f"stays as it is: {name}"
    yield f"committed: {page}" if page else "nothing was uploaded: leave out --dry-run to do it"
