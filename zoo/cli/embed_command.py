"""`zoo embed SOURCE…`: write a dataset with a vector of every picture."""

from collections.abc import Iterator

from zoo.apps.embed.calls import embed
from zoo.apps.embed.requests import EmbedResult
from zoo.cli.command_options import derive_options
from zoo.cli.console import CommandResult
from zoo.common.errors import FAILED_CHECK

LISTED_ENDINGS = 5
"""The number of file endings that are listed for files that are no pictures."""


@derive_options(embed)
def embed_command(embedded: EmbedResult) -> CommandResult[EmbedResult]:
    """Write a dataset with a vector of every picture, in Lance's format.

    To complete a run that was stopped, run the same command again. If some of the pictures have
    been added or changed, only these are embedded. If a picture cannot be read, the column `error`
    of its row contains the reason, and the exit code is 1.
    """
    code = FAILED_CHECK if embedded.errors else 0
    return CommandResult(
        embedded, _blocks, lambda result: vars(result) | {"rate": result.rate}, code
    )


def _blocks(embedded: EmbedResult) -> Iterator[str]:
    """Yield what is printed about a run: the pictures, changes to the dataset, and the speed."""
    yield f"{embedded.dataset}: {embedded.pictures:,} pictures"
    if embedded.computed < embedded.pictures + embedded.errors or embedded.gone:
        yield _changes(embedded)
    if embedded.passed:
        endings = sorted(embedded.passed.items(), key=lambda item: -item[1])
        counts = ", ".join(f"{count:,} {ending}" for ending, count in endings[:LISTED_ENDINGS])
        yield (
            f"skipped, as no pictures by their names: {counts}"
            f"{', …' * (len(endings) > LISTED_ENDINGS)}"
        )
    if embedded.computed:
        total = sum(embedded.seconds.values()) or 1.0
        shares = (f"{name} {seconds / total:.0%}" for name, seconds in embedded.seconds.items())
        yield (
            f"{embedded.computed:,} of them now: {embedded.rate:,.1f} a second, "
            f"{embedded.cores:.1f} cores busy ({', '.join(shares)})"
        )
    if embedded.errors:
        yield f"{embedded.errors:,} could not be read: the column `error` of their rows says why"


def _changes(embedded: EmbedResult) -> str:
    """Return a sentence about the rows of an earlier run that were kept, added or recomputed."""
    row_state = "removed" if embedded.pruned else "kept; --prune removes them"
    deleted = (
        f"{embedded.gone:,} of deleted ones ({row_state})" if embedded.gone else "none deleted"
    )
    return (
        f"{embedded.kept:,} rows are unchanged, {embedded.added:,} of new pictures were added, "
        f"{embedded.again:,} of changed ones computed again, {deleted}"
    )
