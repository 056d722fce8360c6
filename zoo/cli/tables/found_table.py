"""What a search of a dataset found: rows, groups of duplicates, an index."""

from collections.abc import Mapping, Sequence

from zoo.apps.embed.index import MEASURED_NEAREST, IndexFacts
from zoo.apps.embed.search_call import FoundRow
from zoo.cli.tables import counted, print_table
from zoo.common.terminal import say


def show_found(rows: Sequence[FoundRow]) -> None:
    """Rows, best first."""
    if not rows:
        return say("nothing was found")
    sizes = ("" if row.width is None else f"{row.width} x {row.height}" for row in rows)
    print_table(
        ("key", ">cosine", ">width x height"),
        ((row.key, f"{row.cosine:.4f}", size) for row, size in zip(rows, sizes, strict=True)),
    )


def show_groups(groups: Sequence[Mapping[str, object]], count: int) -> None:
    """Groups of duplicates, a line for each row; the cosine is that with the nearest other row."""
    said: list[tuple[object, ...]] = []
    for number, group in enumerate(groups, 1):
        members = group["rows"]
        assert isinstance(members, list)
        said += [(number, each["key"], f"{each['cosine']:.4f}") for each in members]
    if said:
        print_table((">group", "key", ">cosine"), said)
    more = f", of which {len(groups)} are shown" if len(groups) < count else ""
    say(f"{counted(count, 'group')} of duplicates{more}")


def show_index(index: IndexFacts) -> None:
    """An index, and what it finds of what an exact search finds."""
    size = f"{index.bytes / 1e6:.1f} MB, built in {index.seconds:.0f} s"
    say(f"{index.kind} of {index.rows:,} rows in {index.partitions} partitions, {size}")
    say(
        f"it finds {index.recall:.1%} of the {MEASURED_NEAREST} nearest rows of {index.asked} ones "
        f"in {index.indexed_ms:.1f} ms each; comparing all rows takes {index.exact_ms:.1f} ms"
    )
