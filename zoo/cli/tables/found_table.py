"""What a search of a dataset found: rows, groups of duplicates, an index."""

from collections.abc import Iterator, Mapping, Sequence

from zoo.apps.embed.index import MEASURED_NEAREST, IndexFacts
from zoo.apps.embed.search_request import FoundRow
from zoo.cli.tables import Block, Table, counted


def found_blocks(rows: Sequence[FoundRow]) -> Iterator[Block]:
    """Yield rows, best first."""
    if not rows:
        yield "nothing was found"
        return
    sizes = ("" if row.width is None else f"{row.width} x {row.height}" for row in rows)
    yield Table(
        ("key", ">cosine", ">width x height"),
        ((row.key, f"{row.cosine:.4f}", size) for row, size in zip(rows, sizes, strict=True)),
    )


def group_blocks(groups: Sequence[Mapping[str, object]], count: int) -> Iterator[Block]:
    """Yield groups of duplicates, a line for each row, with the cosine to the nearest other row."""
    said: list[tuple[object, ...]] = []
    for number, group in enumerate(groups, 1):
        members = group["rows"]
        assert isinstance(members, list)
        said += [(number, each["key"], f"{each['cosine']:.4f}") for each in members]
    if said:
        yield Table((">group", "key", ">cosine"), said)
    more = f", of which {len(groups)} are shown" if len(groups) < count else ""
    yield f"{counted(count, 'group')} of duplicates{more}"


def index_blocks(index: IndexFacts) -> Iterator[Block]:
    """Yield an index, and what it finds of what an exact search finds."""
    size = f"{index.bytes / 1e6:.1f} MB, built in {index.seconds:.0f} s"
    yield f"{index.kind} of {index.rows:,} rows in {index.partitions} partitions, {size}"
    yield (
        f"it finds {index.recall:.1%} of the {MEASURED_NEAREST} nearest rows of {index.asked} ones "
        f"in {index.indexed_ms:.1f} ms each; comparing all rows takes {index.exact_ms:.1f} ms"
    )
