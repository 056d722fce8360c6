"""Work on a chunk: read and decode pictures, run the network, and write fragments."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
from lance import LanceDataset
from lance.fragment import write_fragments

from weights.errors import WeightsError
from zoo.apps.embed.dataset import ChunkResult, Description, StatedSource, lance_writing, quoted
from zoo.apps.embed.network import Runner
from zoo.apps.embed.row_columns import RowColumns, make_thumbnail
from zoo.apps.embed.sources import Chunk, Item, chunk_items, picture_key
from zoo.architectures.inputs import Feeds
from zoo.common.errors import BadRequest, ZooError, first_line
from zoo.images.pictures import read_picture

ROWS = 256  # the number of rows that are converted to Arrow's format together

FRAGMENT_BYTES = 64 << 20
"""The number of bytes of rows in memory at which a fragment is written before its chunk ends."""

PIECE_SECONDS, LARGEST_PIECE = 0.02, 16
"""The time that a thread should work on a piece of a chunk, and the largest number of batches in a
piece. With one picture in a piece, threads of a small network mostly wait for Python's lock."""

PIECE_BYTES = 64 << 20
"""The number of bytes of decoded pictures at which the network runs before its piece ends."""

FREE_BATCHES = 4
"""The least number of batches in a piece if a network takes several shapes. A batch has one."""

Row = dict[str, Any]  # values by column

Task = Chunk | int
"""A chunk of pictures, or the id of a fragment whose rows get the vectors of an appended model."""


@dataclass
class PendingRow:
    """The values of a row by column. Some of them may not be computed yet.

    - `feeds`: the arrays for the network; None if the picture cannot be read or is unchanged, and
      after the network has run.
    - `offset`: the offset of the row that has the same bytes, which is copied. None for others.
    """

    values: Row
    feeds: Feeds | None = None
    offset: int | None = None

    @property
    def feed_bytes(self) -> int:
        """The number of bytes of the arrays for the network."""
        return sum(array.nbytes for array in (self.feeds or {}).values())


class ChunkWorker:
    """Worker that embeds chunks, with threads that all chunks in progress share.

    There are two threads for each run of the network that is possible at the same time
    (`runner.lanes`): while some read and decode pictures, others run the network.

    **Arguments:** `columns` are the columns of the dataset at `out` that the network of `runner`
    computes. `report` is called by these threads with a number of pictures that are done, and the
    number of those that were not only copied from their rows.
    """

    def __init__(
        self,
        out: Path,
        description: Description,
        columns: RowColumns,
        runner: Runner,
        report: Callable[[int, int], None] = lambda *_: None,
    ):
        self.out, self.sources, self.runner, self.report = out, description.sources, runner, report
        self.columns, network, self.stopped = columns, columns.network, False
        self.smallest_sides = network.smallest_sides if description.draft else None
        self.batch = description.batch
        self.least_piece = self.batch * (FREE_BATCHES if network.size is None else 1)
        self.piece_size = self.least_piece
        self.pool = ThreadPoolExecutor(2 * runner.lanes)

    def stop(self) -> None:
        """Abandon unfinished chunks and end the threads. A `run` in progress raises
        `CancelledError`."""
        self.stopped = True
        self.pool.shutdown(cancel_futures=True)

    def run(self, task: Task) -> ChunkResult:
        """Write the rows of a chunk of pictures as fragments, or, for the id of a fragment, the
        vectors of its rows.

        Nothing is committed. **Raises** a `ZooError`.
        """
        return self._append_vectors(task) if isinstance(task, int) else self._embed_chunk(task)

    def _embed_chunk(self, chunk: Chunk) -> ChunkResult:
        result, tables = ChunkResult(), list[pa.Table]()
        table = lance.dataset(str(self.out)) if chunk.has_rows else None
        earlier = {} if table is None else _read_earlier(table, chunk)
        rows = self._run_pieces(chunk_items(chunk), earlier, result.seconds)
        while part := list(islice(rows, ROWS)):
            for row in part:
                row.values["source"] = chunk.source.path
                _count(row, earlier.get(row.values["key"]), result)
            with timed(result.seconds, "write"):
                tables += self._to_tables(part, table)
                if sum(rows.nbytes for rows in tables) > FRAGMENT_BYTES:
                    self._write(tables, result)
        with timed(result.seconds, "write"):
            self._write(tables, result)
        return result

    def _to_tables(
        self, rows: Sequence[PendingRow], table: LanceDataset | None
    ) -> Iterator[pa.Table]:
        """Yield a table of the rows without an offset and, if there are others and a dataset
        `table`, one with copies of its rows at these offsets, with new stamps."""
        yield self.columns.to_table([row.values for row in rows if row.offset is None])
        same = [row for row in rows if row.offset is not None]
        if same and table is not None:
            names = list(self.columns.names)
            copies = table.take([row.offset for row in same], columns=names).select(names)
            stamps = pa.array([row.values["stamp"] for row in same], pa.string())
            copies = copies.set_column(names.index("stamp"), "stamp", stamps)
            yield copies.cast(self.columns.schema())

    def _write(self, tables: list[pa.Table], result: ChunkResult) -> None:
        """Write tables as fragments, add these to the result, and empty the list of tables."""
        table = pa.concat_tables(tables) if tables else ()
        if len(table):
            with lance_writing(self.out):
                result.fragments += write_fragments(table, str(self.out))
        tables.clear()

    def _append_vectors(self, fragment_id: int) -> ChunkResult:
        """Write vectors for the rows of a fragment that have none in the column of the job.

        Rows with an error, and rows whose pictures now have other bytes, get none.
        """
        column, result, vectors = self.columns.column, ChunkResult(), list[Row]()
        fragment = lance.dataset(str(self.out)).get_fragment(fragment_id)
        assert fragment is not None
        incomplete = fragment.scanner(
            columns=["key", "source", "stamp", "sha256"],
            filter=f"error is null and {column} is null",
            with_row_id=True,
        ).to_table()
        for chunk, by_key in _chunks_of_rows(self.sources, incomplete.to_pylist()):
            items = (item for item in chunk_items(chunk) if item.key in by_key)
            for row in self._run_pieces(items, {}, result.seconds):
                stored = by_key[row.values["key"]]
                if row.values.get("sha256") == stored["sha256"]:
                    vectors.append(row.values | stored)
        result.counts = Counter(pictures=len(incomplete), computed=len(vectors))
        if vectors:
            ids = pa.array([values["_rowid"] for values in vectors], pa.uint64())
            update = self.columns.to_table(vectors, [column]).append_column("_rowid", ids)
            with lance_writing(self.out), timed(result.seconds, "write"):
                metadata, result.fields = fragment.update_columns(update)
            result.updated = [metadata]
        return result

    def _run_pieces(
        self, items: Iterator[Item], earlier: dict[str, Row], seconds: dict[str, float]
    ) -> Iterator[PendingRow]:
        """Yield the finished row of each picture.

        A piece is a number of pictures that one thread works on. Pieces are yielded in order, and
        the rows within a piece in any order. Further pieces are in progress meanwhile.

        **Arguments:** `earlier` are rows of the dataset by key; a picture with the bytes of its
        row is not embedded. Processor time is added to `seconds`.
        """
        pending = deque[Future[list[PendingRow]]]()
        try:
            while piece := list(islice(items, self.piece_size)):
                if self.stopped:
                    raise CancelledError
                pending.append(self.pool.submit(self._run_piece, piece, earlier, seconds))
                if len(pending) > 2 * self.runner.lanes + 2:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _run_piece(
        self, piece: Sequence[Item], earlier: dict[str, Row], seconds: dict[str, float]
    ) -> list[PendingRow]:
        """Embed some pictures and return their rows, in any order.

        The size of later pieces is adapted to the time that it takes.
        """
        began, finished, ready = time.perf_counter(), list[PendingRow](), list[PendingRow]()
        for item in piece:
            with timed(seconds, "pictures"):
                row = self._prepare(item, earlier.get(item.key))
            (finished if row.feeds is None else ready).append(row)
            # Only pictures that are fed at their own size are as large as this.
            if sum(row.feed_bytes for row in ready) > PIECE_BYTES:
                finished += self._run_network(ready, seconds)
                ready = []
        finished += self._run_network(ready, seconds)
        batch_seconds = (time.perf_counter() - began) / len(piece) * self.batch
        size = self.batch * min(LARGEST_PIECE, int(PIECE_SECONDS / batch_seconds))
        self.piece_size = max(self.least_piece, size)
        self.report(len(piece), sum(row.offset is None for row in finished))
        return finished

    def _prepare(self, item: Item, before: Row | None) -> PendingRow:
        """Read, decode and resize a picture, unless its bytes are those of its row `before`.

        The reason why a picture cannot be read goes into the row that is returned.
        """
        row = PendingRow({"key": item.key, "stamp": item.stamp})
        with recorded_errors(row.values):
            data = item.read()
            row.values["sha256"] = hashlib.sha256(data).hexdigest()
            if before and before["error"] is None and before["sha256"] == row.values["sha256"]:
                row.offset = before["_rowoffset"]
                return row
            read = read_picture(data, item.key, self.smallest_sides)
            row.values["height"], row.values["width"] = read.original_size
            if "thumbnail" in self.columns.extra:
                row.values["thumbnail"] = make_thumbnail(read, data)
            row.feeds = self.runner.network.make_feeds(read)
        return row

    def _run_network(self, rows: list[PendingRow], seconds: dict[str, float]) -> list[PendingRow]:
        """Run the network on pictures, in batches of equal shapes, complete their rows in place,
        and return them."""
        names = [*dict.fromkeys(self.columns.outputs.values())]
        groups = defaultdict[tuple[tuple[int, ...], ...], list[PendingRow]](list)
        for row in rows:
            groups[tuple(array.shape for array in (row.feeds or {}).values())].append(row)
        with timed(seconds, "network"):
            for group in groups.values():
                for start in range(0, len(group), self.batch):
                    batch = group[start : start + self.batch]
                    outputs = self.runner.run([row.feeds for row in batch if row.feeds], names)
                    for index, row in enumerate(batch):
                        row.feeds = None
                        with recorded_errors(row.values):
                            row.values |= self.columns.values(outputs, index)
        return rows


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Generator[None]:
    """Add the processor time of this thread in the block to the seconds of a stage."""
    began = time.thread_time()
    try:
        yield
    finally:
        seconds[stage] = seconds.get(stage, 0.0) + time.thread_time() - began


@contextmanager
def recorded_errors(values: Row) -> Generator[None]:
    """Replace an exception that the picture causes by the reason in its row.

    The row keeps `key` and `stamp` alone, and gets `error`. **Raises** `BadRequest` if there is not
    enough memory: a later run may have more, so that the picture gets no row.
    """
    try:
        yield
    except (ZooError, WeightsError, OSError) as error:
        reason = (error.strerror or first_line(error)) if isinstance(error, OSError) else str(error)
        key, stamp = values["key"], values["stamp"]
        values.clear()
        values |= {"key": key, "stamp": stamp, "error": reason}
    except MemoryError as error:
        raise BadRequest(
            f"there is not enough memory for {values['key']}: leave it out of the sources, or end "
            "other programs."
        ) from error


def _read_earlier(table: LanceDataset, chunk: Chunk) -> dict[str, Row]:
    """Return the rows of a chunk's pictures by key: their sha256, error and offset."""
    condition = f"source = {quoted(chunk.source.path)}"
    if not chunk.source.is_archive:
        keys = (quoted(picture_key(chunk.source, name)) for name, _ in chunk.names)
        condition += f" and key in ({', '.join(keys)})"
    columns = ["key", "sha256", "error", "_rowoffset"]
    rows = table.to_table(columns=columns, filter=condition).to_pylist()
    return {row["key"]: row for row in rows}


def _count(row: PendingRow, before: Row | None, result: ChunkResult) -> None:
    """Count a picture in the result of its chunk, and add its older row to `replaced`.

    `before` is its row in the dataset, or None. A picture that cannot be read counts as `computed`,
    unless its row has the same error. A picture that is copied counts in `pictures` alone.
    """
    values, counts = row.values, result.counts
    counts["pictures"] += 1
    if before is not None:
        result.replaced.append((values["source"], values["key"]))
    if "error" in values:
        counts["computed"] += before is None or before["error"] != values["error"]
    elif row.offset is None:
        counts["computed"] += 1
        counts["added" if before is None or before["error"] is not None else "again"] += 1


def _chunks_of_rows(
    sources: Sequence[StatedSource], rows: list[Row]
) -> Iterator[tuple[Chunk, dict[str, Row]]]:
    """Yield a chunk with the pictures of rows for each source, and these rows by key."""
    for source in sources:
        by_key = {row["key"]: row for row in rows if row["source"] == source.path}
        stamped = ((key.removeprefix(source.prefix), row["stamp"]) for key, row in by_key.items())
        names = ((source.path, ""),) if source.is_archive else tuple(stamped)
        if by_key:
            yield Chunk(source, names), by_key
