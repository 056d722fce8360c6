"""`zoo cache`: what was downloaded, and how to remove it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from weights.sources import cache
from zoo.cli.command_options import DryRun, Json, examples, options_of
from zoo.cli.console import help_alone, print_json, print_result, progress_bar
from zoo.common.errors import BadRequest
from zoo.common.options import argument, flag
from zoo.common.staging import writing
from zoo.common.terminal import complain, say

app = typer.Typer(help="List what was downloaded, and remove it.")
app.callback(invoke_without_command=True)(help_alone)

Patterns = Annotated[
    Sequence[str],
    argument(
        "[PATTERN]...",
        "Shell patterns of names in the list, such as `*vits16*` or `checkpoints/*`.",
    ),
]


@app.command("list", epilog=examples("zoo cache list", "zoo cache list '*vits16*'"))
@options_of()
def list_entries(patterns: Patterns = (), json: Json = False) -> None:
    """Show what is in the cache: checkpoints, and models that `zoo.load` downloaded."""
    entries = _entries(patterns)
    print_result(json, entries, _show, lambda all: {"root": cache.root(), "entries": _records(all)})


@app.command("clear", epilog=examples("zoo cache clear 'checkpoints/*' --dry-run"))
@options_of()
def clear(
    patterns: Patterns = (),
    yes: Annotated[bool, flag("Do not ask for confirmation.")] = False,
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Remove what is in the cache, or the part of it that fits a pattern."""
    entries = _entries(patterns)
    if not json:
        _show(entries)
    removed = bool(entries) and not dry_run and (yes or _confirmed(entries))
    if removed:
        with progress_bar() as progress, writing(cache.root()):
            for entry in entries:
                cache.remove(entry, progress)
    if json:
        print_json({"removed": removed, "entries": _records(entries)})
    elif entries:
        say("all of this was removed" if removed else "nothing was removed")


def _entries(patterns: Sequence[str]) -> list[cache.CachedEntry]:
    with writing(cache.root()):
        return cache.entries(patterns or ["*"])


def _confirmed(entries: Sequence[cache.CachedEntry]) -> bool:
    try:
        return typer.confirm(f"Remove {_total(entries)} from {cache.root()}?", err=True)
    except typer.Abort as error:
        complain("")  # the question's line has no end yet
        raise BadRequest("nobody answered whether to remove the files: add --yes.") from error


def _show(entries: Sequence[cache.CachedEntry]) -> None:
    for entry in entries:
        used = datetime.fromtimestamp(entry.used).strftime("%Y-%m-%d")
        say(f"{entry.bytes / 1e6:>9,.1f} MB  last used {used}  {entry.name}")
    say(f"{_total(entries)} in {cache.root()}")


def _total(entries: Sequence[cache.CachedEntry]) -> str:
    noun = "entry" if len(entries) == 1 else "entries"
    return f"{len(entries)} {noun} of {sum(entry.bytes for entry in entries) / 1e6:,.1f} MB"


def _records(entries: Sequence[cache.CachedEntry]) -> list[dict[str, Any]]:
    return [
        {"kind": entry.kind, "name": entry.name, "path": entry.path, "bytes": entry.bytes}
        | {"last_used": datetime.fromtimestamp(entry.used, UTC).isoformat(timespec="seconds")}
        for entry in entries
    ]
