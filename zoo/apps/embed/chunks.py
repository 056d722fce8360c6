"""Work on a chunk: read, decode, resize, run the network, and write fragments."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from weights.errors import WeightsError
from zoo.apps.embed.dataset import ChunkResult, lance_writing, quoted
from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.embed_call import EmbedRequest
from zoo.apps.embed.items import Chunk, Item, chunk_items
from zoo.apps.embed.network import Runner
from zoo.apps.embed.row_columns import RowColumns, thumbnail
from zoo.apps.embed.sources import picture_key
from zoo.architectures.inputs import Feeds
from zoo.common.errors import BadRequest, ZooError, first_line
from zoo.images.pictures import read_picture

if TYPE_CHECKING:
    from lance import LanceDataset

ROWS = 256
"""Rows that are converted to Arrow's format together."""

FRAGMENT_BYTES = 64 << 20
"""Bytes of rows in memory at which a fragment is written before its chunk ends."""

PIECE_SECONDS, LARGEST_PIECE = 0.02, 16
"""Time that a thread works on a piece of a chunk, and most batches of a piece. With one picture
a piece, a small network spends more time on handing over Python's lock than on computing."""

PIECE_BYTES = 64 << 20
"""Bytes of pictures that a thread holds at most, apart from the last of them."""

FREE_BATCHES = 4
"""Batches of a piece, at least, if a network takes several shapes: a batch has one shape."""

Row = dict[str, Any]

Task = Chunk | int
"""A chunk of pictures, or the number of a fragment that gets the vectors of another model."""


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the rows of a picture. `model` and `digest` are of the network."""

    model: str
    digest: str
    request: EmbedRequest
    sources: tuple[StatedSource, ...]
    column: str


@dataclass(frozen=True)
class PictureOutcome:
    """Row of a picture. `same` is the offset of its earlier row if its bytes have not changed, and
    `values` are for the network, as long as the row has no outputs of it."""

    row: Row
    values: Feeds | None = None
    same: int | None = None


class Clock:
    """Processor seconds of threads by stage."""

    def __init__(self) -> None:
        self.seconds = defaultdict[str, float](float)

    def count(self, stage: str, began: float) -> None:
        """Count the time of this thread since it was `began`."""
        self.seconds[stage] += time.thread_time() - began


@dataclass(frozen=True)
class EarlierRows:
    """Rows of a chunk's pictures in the dataset, by key, without their vectors."""

    table: LanceDataset | None = None
    rows: dict[str, Row] = field(default_factory=dict)

    @classmethod
    def read(cls, recipe: Recipe, chunk: Chunk) -> EarlierRows:
        """Return the rows of a chunk."""
        import lance

        if not chunk.has_rows:
            return cls()
        table = lance.dataset(str(recipe.request.out))
        condition = f"source = {quoted(chunk.source.path)}"
        if not chunk.source.is_archive:
            keys = (quoted(picture_key(chunk.source, name)) for name, _ in chunk.names)
            condition += f" and key in ({', '.join(keys)})"
        columns = ["key", "sha256", "error", "_rowoffset"]
        rows = table.to_table(columns=columns, filter=condition).to_pylist()
        return cls(table, {row["key"]: row for row in rows})

    def complete(self, outcomes: Sequence[PictureOutcome], columns: Sequence[str]) -> list[Row]:
        """Return rows, of which those of unchanged pictures are copies with their new stamp."""
        same = [outcome for outcome in outcomes if outcome.same is not None]
        rows = [outcome.row for outcome in outcomes if outcome.same is None]
        if same and self.table is not None:
            offsets = [outcome.same for outcome in same]
            copies = self.table.take(offsets, columns=list(columns)).to_pylist()
            rows += [copy | outcome.row for copy, outcome in zip(copies, same, strict=True)]
        return rows


class ChunkWorker:
    """Embeds chunks with threads that are shared between the chunks in flight."""

    def __init__(
        self, recipe: Recipe, runner: Runner, report: Callable[[int, int], None] | None = None
    ):
        self.recipe, self.request, self.runner = recipe, recipe.request, runner
        self.report = report or (lambda pictures, computed: None)
        self.columns = RowColumns(
            runner.found, recipe.request.dtype, recipe.request.extra, recipe.column
        )
        self.stopped = False
        self.least = FREE_BATCHES if runner.found.is_free else 1
        self.piece = self.request.batch * self.least
        # While some threads wait for a file or for the network, others decode.
        self.ahead = 2 * runner.lanes + 2
        self.pool = ThreadPoolExecutor(2 * runner.lanes)

    def stop(self) -> None:
        """Abandon unfinished chunks and end the threads."""
        self.stopped = True
        self.pool.shutdown(cancel_futures=True)

    def run(self, task: Task) -> ChunkResult:
        """Embed a chunk, or append a model's vectors to a fragment."""
        return self.append(task) if isinstance(task, int) else self.embed(task)

    def embed(self, chunk: Chunk) -> ChunkResult:
        """Write the fragments of a chunk, which are not committed yet.

        **Raises** a `ZooError` if they cannot be written.
        """
        import pyarrow as pa
        from lance.fragment import write_fragments

        earlier = EarlierRows.read(self.recipe, chunk)
        clock, batches = Clock(), list[pa.RecordBatch]()
        result = ChunkResult(seconds=clock.seconds)
        source, outcomes = chunk.source.path, self._outcomes(chunk_items(chunk), earlier, clock)
        while True:
            pieces = list(islice(outcomes, ROWS))
            began = time.thread_time()
            if pieces:
                for outcome in pieces:
                    _count(result, outcome, earlier.rows.get(outcome.row["key"]), source)
                rows = earlier.complete(pieces, self.columns.names)
                batches.append(self.columns.table([row | {"source": source} for row in rows]))
            is_large = sum(batch.nbytes for batch in batches) > FRAGMENT_BYTES
            if batches and (is_large or not pieces):
                table = pa.Table.from_batches(batches)
                with lance_writing(self.request.out):
                    result.fragments += write_fragments(table, str(self.request.out))
                batches.clear()
            clock.count("write", began)
            if not pieces:
                return result

    def append(self, number: int) -> ChunkResult:
        """Write vectors of another model for those rows of one fragment that have none.

        A picture whose bytes are not those of its row gets none. **Raises** a `ZooError`.
        """
        import lance
        import pyarrow as pa

        clock, column = Clock(), self.columns.column
        fragments = lance.dataset(str(self.request.out)).get_fragments()
        (fragment,) = (each for each in fragments if each.fragment_id == number)
        rows = fragment.scanner(
            columns=["key", "source", "stamp", "sha256"],
            filter=f"error is null and {column} is null",
            with_row_id=True,
        ).to_table()
        numbers, vectors = list[int](), list[Any]()
        for chunk, by_key in _chunks_of_rows(self.recipe.sources, rows.to_pylist()):
            items = (item for item in chunk_items(chunk) if item.key in by_key)
            for outcome in self._outcomes(items, EarlierRows(), clock):
                row = by_key[outcome.row["key"]]
                if outcome.row.get("sha256") == row["sha256"]:
                    numbers.append(row["_rowid"])
                    vectors.append(outcome.row[column])
        if not vectors:
            return ChunkResult(seconds=clock.seconds)
        arrays = [pa.array(numbers, pa.uint64()), self.columns.array(vectors, column)]
        began = time.thread_time()
        with lance_writing(self.request.out):
            update = pa.table(arrays, names=["_rowid", column])
            metadata, fields = fragment.update_columns(update)
        clock.count("write", began)
        counts = Counter(pictures=len(rows), computed=len(vectors))
        return ChunkResult([], [], [metadata], fields, counts, clock.seconds)

    def _outcomes(
        self, items: Iterator[Item], earlier: EarlierRows, clock: Clock
    ) -> Iterator[PictureOutcome]:
        """Yield what becomes of the pictures, in their order."""
        pending = deque[Future[list[PictureOutcome]]]()
        try:
            while piece := list(islice(items, self.piece)):
                if self.stopped:
                    raise CancelledError
                pending.append(self.pool.submit(self._embed_piece, piece, earlier, clock))
                if len(pending) > self.ahead:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _embed_piece(
        self, piece: Sequence[Item], earlier: EarlierRows, clock: Clock
    ) -> list[PictureOutcome]:
        """Embed some pictures, and set the size of later pieces by the time that it takes."""
        began, outcomes, size = time.perf_counter(), list[PictureOutcome](), 0
        prepared = list[PictureOutcome]()
        for item in piece:
            at = time.thread_time()
            outcome = _or_failure(item, partial(self._prepare, item, earlier.rows))
            clock.count("pictures", at)
            prepared.append(outcome)
            size += sum(array.nbytes for array in (outcome.values or {}).values())
            if size > PIECE_BYTES or len(outcomes) + len(prepared) == len(piece):
                at = time.thread_time()
                outcomes += self._run(prepared)
                clock.count("network", at)
                prepared, size = [], 0
        seconds = (time.perf_counter() - began) / len(piece) * self.request.batch
        batches = min(LARGEST_PIECE, max(self.least, int(PIECE_SECONDS / seconds)))
        self.piece = self.request.batch * batches
        self.report(len(piece), sum(outcome.same is None for outcome in outcomes))
        return outcomes

    def _prepare(self, item: Item, earlier: dict[str, Row]) -> PictureOutcome:
        """Read, decode and resize a picture, unless its bytes are those of its row."""
        data = item.read()
        row: Row = {"key": item.key, "stamp": item.stamp}
        row["sha256"] = hashlib.sha256(data).hexdigest()
        before = earlier.get(item.key)
        if before is not None and before["sha256"] == row["sha256"] and before["error"] is None:
            return PictureOutcome(row, same=before["_rowoffset"])
        network = self.runner.found
        read = read_picture(data, item.key, network.least if self.request.draft else None)
        row["height"], row["width"] = read.sides
        if "thumbnail" in self.request.extra:
            row["thumbnail"] = thumbnail(read, data)
        return PictureOutcome(row, network.values(read))

    def _run(self, prepared: list[PictureOutcome]) -> list[PictureOutcome]:
        """Run the network on pictures, in batches of one shape, and complete their rows."""
        shapes = defaultdict[tuple[tuple[int, ...], ...], list[tuple[int, Feeds]]](list)
        for index, outcome in enumerate(prepared):
            if (feeds := outcome.values) is not None:
                shapes[tuple(array.shape for array in feeds.values())].append((index, feeds))
        outcomes = list(prepared)
        for waiting in shapes.values():
            for start in range(0, len(waiting), self.request.batch):
                batch = waiting[start : start + self.request.batch]
                outputs = self.runner.run([feeds for _, feeds in batch], self.columns.outputs)
                for position, (index, _) in enumerate(batch):
                    outcomes[index] = self._completed(prepared[index].row, outputs, position)
        return outcomes

    def _completed(self, row: Row, outputs: Any, position: int) -> PictureOutcome:
        return _or_failure(
            Item(row["key"], row["stamp"], bytes),
            lambda: PictureOutcome(self.columns.filled(row, outputs, position)),
        )


def _count(result: ChunkResult, outcome: PictureOutcome, before: Row | None, source: str) -> None:
    """Count a picture in the result of its chunk; `before` is its earlier row."""
    row, counts = outcome.row, result.counts
    counts["pictures"] += 1
    if before is not None:
        result.replaced.append((source, row["key"]))
    if "error" in row:
        counts["computed"] += before is None or before["error"] != row["error"]
    elif outcome.same is None:
        counts["computed"] += 1
        counts["added" if before is None or before["error"] is not None else "again"] += 1


def _chunks_of_rows(
    sources: Sequence[StatedSource], rows: list[Row]
) -> Iterator[tuple[Chunk, dict[str, Row]]]:
    """Yield the pictures of rows as chunks, source by source, with their rows by key."""
    for source in sources:
        by_key = {row["key"]: row for row in rows if row["source"] == source.path}
        if by_key:
            stamps = ((row["key"], row["stamp"]) for row in by_key.values())
            names = tuple((key.removeprefix(source.prefix), stamp) for key, stamp in stamps)
            names = ((source.path, ""),) if source.is_archive else names
            yield Chunk(source, names), by_key


def _or_failure(item: Item, make: Callable[[], PictureOutcome]) -> PictureOutcome:
    """Return what is made of a picture, or a row with the reason why it cannot be made."""
    try:
        return make()
    except (ZooError, WeightsError) as error:
        reason = str(error)
    except OSError as error:
        reason = error.strerror or first_line(error)
    except MemoryError as error:
        # Another run may have more memory: the picture gets no row.
        raise BadRequest(
            f"there is not enough memory for {item.key}: leave it out of the sources, or end other "
            "programs."
        ) from error
    return PictureOutcome({"key": item.key, "stamp": item.stamp, "error": reason})
