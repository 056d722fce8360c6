"""Tables of a search in a dataset: rows, groups of duplicates, and the index."""

from collections.abc import Iterator, Mapping, Sequence

from zoo.apps.embed.index import MEASURED_NEAREST, IndexFacts
from zoo.apps.embed.requests import FoundRow
from zoo.cli.tables import Block, Table, count_noun


def found_blocks(rows: Sequence[FoundRow]) -> Iterator[Block]:
    """Yield what is printed about a search: a table of the rows that were found, best first."""
    if not rows:
        yield "nothing was found"
        return
    sizes = ("" if row.width is None else f"{row.width} x {row.height}" for row in rows)
    yield Table(
        ("key", ">cosine", ">width x height"),
        ((row.key, f"{row.cosine:.4f}", size) for row, size in zip(rows, sizes, strict=True)),
    )


def group_blocks(groups: Sequence[Mapping[str, object]], count: int) -> Iterator[Block]:
    """Yield what is printed about groups of duplicates.

    This is a table of the rows of each group with their cosines to the nearest other row. `groups`
    may be the first of all groups, whose number is `count`.
    """
    lines: list[tuple[object, ...]] = []
    for number, group in enumerate(groups, 1):
        members = group["rows"]
        assert isinstance(members, list)
        lines += [(number, row["key"], f"{row['cosine']:.4f}") for row in members]
    if lines:
        yield Table((">group", "key", ">cosine"), lines)
    shown_groups = f", of which {len(groups)} are shown" if len(groups) < count else ""
    yield f"{count_noun(count, 'group')} of duplicates{shown_groups}"


def index_blocks(index: IndexFacts) -> Iterator[Block]:
    """Yield what is printed about a new index: its size, and the share of nearest rows it finds."""
    size = f"{index.bytes / 1e6:.1f} MB, built in {index.seconds:.0f} s"
    yield f"{index.kind} of {index.rows:,} rows in {index.partitions} partitions, {size}"
    yield (
        f"it finds {index.recall:.1%} of the {MEASURED_NEAREST} nearest rows of {index.asked} rows "
        f"in {index.indexed_ms:.1f} ms each; comparing all rows takes {index.exact_ms:.1f} ms"
    )
