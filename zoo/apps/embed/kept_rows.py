"""Rows of parts that there are, among those that are new."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.apps.embed.earlier_rows import EarlierRow
from zoo.apps.embed.embed_request import ROWS
from zoo.apps.embed.lance_parts import lance_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from zoo.apps.embed.part_files import PartFormat
    from zoo.apps.embed.row_columns import RowColumns

PIECES = 4
"""Times so many rows of a part are in memory as are written together."""


class KeptRows:
    """Takes rows out of the parts of a dataset, which have the columns of those to be written."""

    def __init__(self, dataset: Path, how: PartFormat, columns: RowColumns):
        self.dataset, self.how, self.columns = dataset, how, columns
        self.piece = lru_cache(PIECES)(self._piece)

    def merged(self, rows: Sequence[EarlierRow | Mapping[str, Any]]) -> pa.RecordBatch:
        """Rows that are new and rows that there are, in their order."""
        import pyarrow as pa

        fresh = [each for each in rows if not isinstance(each, EarlierRow)]
        if len(fresh) == len(rows):
            return self.columns.table(fresh)
        order = [index for index, each in enumerate(rows) if not isinstance(each, EarlierRow)]
        tables = [pa.Table.from_batches([self.columns.table(fresh)])] if fresh else []
        pieces: dict[tuple[int, int], list[tuple[int, int]]] = {}
        for index, each in enumerate(rows):
            if isinstance(each, EarlierRow):
                piece, offset = divmod(each.row, ROWS)
                pieces.setdefault((each.part, piece), []).append((index, offset))
        for place, members in pieces.items():
            order += [index for index, _ in members]
            tables.append(self.piece(*place).take([offset for _, offset in members]))
        back = sorted(range(len(order)), key=order.__getitem__)
        (batch,) = pa.concat_tables(tables).take(back).combine_chunks().to_batches()
        return batch

    def _piece(self, part: int, piece: int) -> pa.Table:
        import pyarrow as pa

        rows = lance_rows(self.how.part(self.dataset, part), piece)
        schema = self.columns.schema()
        return pa.Table.from_arrays(rows.select(schema.names).columns, schema=schema)
