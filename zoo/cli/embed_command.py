"""`zoo embed SOURCE…`: a dataset with a vector of every picture."""

from zoo.cli import options
from zoo.cli.console import print_result
from zoo.cli.derived import options_of
from zoo.embedding.embed_call import embed
from zoo.embedding.embed_request import Embedded
from zoo.errors import FAILED_CHECK
from zoo.terminal import say

ENDINGS = 5
"""Kinds of files that are named where they are passed over."""


@options_of(embed)
def embed_command(found: Embedded, json: options.Json = False) -> int:
    """Make a dataset with a vector of every picture, in Lance's format.

    A run that is stopped goes on where it was when the same command is given again. When it is
    given after the pictures have changed, those that are new or others are computed, and no more.
    Pictures that cannot be read are listed in NAME.errors.parquet, and the exit code is 1.
    """
    print_result(json, found, _show, lambda done: vars(done) | {"rate": done.rate})
    return FAILED_CHECK if found.errors else 0


def _show(found: Embedded) -> None:
    """How many pictures, how fast, and where the time went."""
    from zoo.embedding.embed_pictures import errors_path

    say(f"{found.dataset}: {found.pictures:,} pictures")
    if found.computed < found.pictures + found.errors or found.gone:
        say(_changes(found))
    if found.passed:
        endings = sorted(found.passed.items(), key=lambda each: -each[1])
        named = ", ".join(f"{count:,} {ending}" for ending, count in endings[:ENDINGS])
        say(
            f"passed over, as no pictures by their names: {named}{', …' * (len(endings) > ENDINGS)}"
        )
    if found.computed:
        total = sum(found.seconds.values()) or 1.0
        shares = (f"{name} {seconds / total:.0%}" for name, seconds in found.seconds.items())
        say(
            f"{found.computed:,} of them now: {found.rate:,.1f} a second, {found.cores:.1f} cores "
            f"busy ({', '.join(shares)})"
        )
    if found.errors:
        say(f"{found.errors:,} could not be read: {errors_path(found.dataset)} says why")


def _changes(found: Embedded) -> str:
    """What has become of the rows that there were."""
    kept = "removed" if found.pruned else "kept, unless you say --prune"
    gone = f"{found.gone:,} gone ({kept})" if found.gone else "none gone"
    return (
        f"{found.kept:,} rows are as they were, {found.added:,} of new pictures were added, "
        f"{found.again:,} of changed ones computed again, {gone}"
    )
