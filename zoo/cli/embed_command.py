"""`zoo embed SOURCE…`: a dataset with a vector of every picture."""

from collections.abc import Iterator

from zoo.apps.embed.embed_call import embed
from zoo.apps.embed.embed_request import EmbedResult
from zoo.cli.command_options import derive_options
from zoo.cli.console import CommandResult
from zoo.common.errors import FAILED_CHECK

ENDINGS = 5
"""Kinds of files that are named where they are passed over."""


@derive_options(embed)
def embed_command(embedded: EmbedResult) -> CommandResult[EmbedResult]:
    """Make a dataset with a vector of every picture, in Lance's format.

    The same command completes a run that was stopped. After pictures have changed it embeds those
    that are new or changed, and no others. The row of a picture that cannot be read has the reason
    in its column `error`, and the exit code is 1.
    """
    code = FAILED_CHECK if embedded.errors else 0
    return CommandResult(embedded, _blocks, lambda done: vars(done) | {"rate": done.rate}, code)


def _blocks(embedded: EmbedResult) -> Iterator[str]:
    """Yield how many pictures, how fast, and where the time went."""
    yield f"{embedded.dataset}: {embedded.pictures:,} pictures"
    if embedded.computed < embedded.pictures + embedded.errors or embedded.gone:
        yield _changes(embedded)
    if embedded.passed:
        endings = sorted(embedded.passed.items(), key=lambda each: -each[1])
        named = ", ".join(f"{count:,} {ending}" for ending, count in endings[:ENDINGS])
        yield (
            f"passed over, as no pictures by their names: {named}{', …' * (len(endings) > ENDINGS)}"
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
    """What has become of the rows that there were."""
    kept = "removed" if embedded.pruned else "kept, unless you say --prune"
    gone = f"{embedded.gone:,} gone ({kept})" if embedded.gone else "none gone"
    return (
        f"{embedded.kept:,} rows are as they were, {embedded.added:,} of new pictures were added, "
        f"{embedded.again:,} of changed ones computed again, {gone}"
    )
