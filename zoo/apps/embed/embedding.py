"""Work on a chunk: read, decode, resize, run the network, and write fragments."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weights.errors import WeightsError
from zoo.apps.embed.dataset import ChunkResult, lance_writing
from zoo.apps.embed.description import StatedSource
from zoo.apps.embed.embed_request import ROWS, EmbedRequest
from zoo.apps.embed.items import Chunk, Item, chunk_items, picture_key
from zoo.apps.embed.network import Runner
from zoo.apps.embed.row_columns import RowColumns, thumbnail
from zoo.apps.embed.sources import source_root
from zoo.architectures.inputs import Feeds
from zoo.common.errors import BadRequest, ZooError, first_line
from zoo.images.pictures import read_picture

if TYPE_CHECKING:
    import pyarrow as pa
    from lance.fragment import FragmentMetadata

STAGES = "read", "decode", "resize", "model", "write"

SHAPES = 4
"""Batches' worth of pictures that are sorted by shape, if a network takes several shapes."""

FRAGMENT_BYTES = 64 << 20
"""Bytes of rows in memory at which a fragment is written before its chunk ends."""


@dataclass(frozen=True)
class Recipe:
    """Everything that determines the rows of a picture. `model` and `digest` are of the network."""

    model: str
    digest: str
    request: EmbedRequest
    sources: tuple[StatedSource, ...]
    column: str


@dataclass(frozen=True)
class PreparedPicture:
    """Picture as arrays for the network, and its row without the outputs."""

    values: Feeds
    row: dict[str, Any]

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of the arrays."""
        return tuple(array.shape for array in self.values.values())


@dataclass(frozen=True)
class Failure:
    """Picture that cannot be read, and the reason."""

    item: Item
    reason: str


@dataclass(frozen=True)
class Same:
    """Picture whose bytes have not changed, with the offset of its row."""

    item: Item
    offset: int


Outcome = dict[str, Any] | Failure | Same
"""What becomes of a picture: a row, a row with an error, or a copy of its earlier row."""

Task = Chunk | int
"""A chunk of pictures, or the number of a fragment that gets the vectors of another model."""


@dataclass
class Clock:
    """Processor seconds of threads by stage. A run of the network is on the calling thread."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Count the time of this thread while the block runs."""
        began = time.thread_time()
        yield
        self.seconds[stage] += time.thread_time() - began


class EarlierRows:
    """Rows of a chunk's pictures in the dataset: their offsets, digests and errors by key."""

    def __init__(self, path: Path, chunk: Chunk):
        import lance

        self.table = lance.dataset(str(path))
        condition = f"source = {_quoted(chunk.source.path)}"
        if not chunk.source.is_archive:
            keys = (_quoted(picture_key(chunk.source, name)) for name, _ in chunk.names)
            condition += f" and key in ({', '.join(keys)})"
        columns = ["key", "sha256", "error", "_rowoffset"]
        rows = self.table.to_table(columns=columns, filter=condition).to_pylist()
        self.rows = {row["key"]: row for row in rows}

    def take(self, same: Sequence[Same], schema: pa.Schema) -> pa.RecordBatch:
        """Return copies of rows with the stamps that their pictures have now."""
        import pyarrow as pa

        rows = self.table.take([each.offset for each in same], columns=schema.names)
        stamps = pa.array([each.item.stamp for each in same], pa.string())
        table = rows.set_column(rows.schema.get_field_index("stamp"), "stamp", stamps)
        (batch,) = table.select(schema.names).cast(schema).combine_chunks().to_batches()
        return batch


def _quoted(text: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + text.replace("'", "''") + "'"


class FragmentWriter:
    """Collects the rows of a chunk and writes them as fragments, one unless they are large."""

    def __init__(self, path: Path, columns: RowColumns, source: str, clock: Clock):
        self.path, self.columns, self.source, self.clock = path, columns, source, clock
        self.rows, self.same = list[dict[str, Any]](), list[Same]()
        self.batches, self.fragments = list["pa.RecordBatch"](), list["FragmentMetadata"]()

    def add(self, outcome: Outcome, earlier: EarlierRows | None) -> None:
        """Add the row of a picture."""
        if isinstance(outcome, Same):
            self.same.append(outcome)
        elif isinstance(outcome, Failure):
            item = outcome.item
            self.rows.append({"key": item.key, "stamp": item.stamp, "error": outcome.reason})
        else:
            self.rows.append(outcome)
        if max(len(self.rows), len(self.same)) == ROWS:
            self.convert(earlier)

    def convert(self, earlier: EarlierRows | None) -> None:
        """Convert rows to Arrow's format, and write them if there are many bytes."""
        with self.clock.during("write"):
            if self.rows:
                self.batches.append(
                    self.columns.table([row | {"source": self.source} for row in self.rows])
                )
            if self.same and earlier is not None:
                self.batches.append(earlier.take(self.same, self.columns.schema()))
            self.rows, self.same = [], []
            if sum(batch.nbytes for batch in self.batches) > FRAGMENT_BYTES:
                self.write()

    def write(self) -> None:
        """Write what was collected. **Raises** `BadOutput`."""
        import pyarrow as pa
        from lance.fragment import write_fragments

        if self.batches:
            table = pa.Table.from_batches(self.batches)
            with self.clock.during("write"), lance_writing(self.path):
                self.fragments += write_fragments(table, str(self.path))
            self.batches = []


class ChunkWorker:
    """Embeds chunks with threads that are shared between the chunks in flight."""

    def __init__(
        self, recipe: Recipe, runner: Runner, report: Callable[[int, int], None] | None = None
    ):
        self.request, self.runner, self.report = recipe.request, runner, report
        self.columns = RowColumns(
            runner.found, recipe.request.dtype, recipe.request.extra, recipe.column
        )
        self.path, self.sources = recipe.request.out, recipe.sources
        self.stopped = False
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
        clock, counts, replaced = Clock(), Counter[str](), list[tuple[str, str]]()
        earlier = EarlierRows(self.path, chunk) if chunk.has_rows else None
        rows = {} if earlier is None else earlier.rows
        writer = FragmentWriter(self.path, self.columns, chunk.source.path, clock)
        for key, outcome in self._outcomes(chunk_items(chunk), rows, clock):
            before = rows.get(key)
            if before is not None:
                replaced.append((chunk.source.path, key))
            counts[_change(outcome, before)] += 1
            self._report(outcome)
            writer.add(outcome, earlier)
        writer.convert(earlier)
        writer.write()
        computed = counts["added"] + counts["again"] + counts["failed"]
        return ChunkResult(
            writer.fragments,
            replaced,
            pictures=counts.total(),
            computed=computed,
            added=counts["added"],
            again=counts["again"],
            seconds=clock.seconds,
        )

    def _report(self, outcome: Outcome) -> None:
        if self.report is not None:
            self.report(1, int(not isinstance(outcome, Same)))

    def append(self, number: int) -> ChunkResult:
        """Write vectors of another model for those rows of one fragment that have none.

        A picture whose bytes are not those of its row gets none. **Raises** a `ZooError`.
        """
        import lance
        import pyarrow as pa

        clock, column = Clock(), self.columns.column
        fragments = lance.dataset(str(self.path)).get_fragments()
        (fragment,) = (each for each in fragments if each.fragment_id == number)
        rows = fragment.scanner(
            columns=["key", "source", "stamp", "sha256"],
            filter=f"error is null and {column} is null",
            with_row_id=True,
        ).to_table()
        numbers, vectors = list[int](), list[Any]()
        for row, outcome in self._outcomes_of_rows(rows.to_pylist(), clock):
            self._report(outcome)
            if isinstance(outcome, dict) and outcome["sha256"] == row["sha256"]:
                numbers.append(row["_rowid"])
                vectors.append(outcome[column])
        if not vectors:
            return ChunkResult([], seconds=clock.seconds)
        arrays = [pa.array(numbers, pa.uint64()), self.columns.array(vectors, column)]
        with clock.during("write"), lance_writing(self.path):
            update = pa.table(arrays, names=["_rowid", column])
            metadata, fields = fragment.update_columns(update)
        return ChunkResult(
            [],
            updated=[metadata],
            fields=fields,
            pictures=len(rows),
            computed=len(vectors),
            seconds=clock.seconds,
        )

    def _outcomes_of_rows(
        self, rows: list[dict[str, Any]], clock: Clock
    ) -> Iterator[tuple[dict[str, Any], Outcome]]:
        """Embed the pictures of rows, source by source."""
        for source in self.sources:
            by_key = {row["key"]: row for row in rows if row["source"] == source.path}
            if not by_key:
                continue
            stamps = ((row["key"], row["stamp"]) for row in by_key.values())
            names = [(key.removeprefix(source.prefix), stamp) for key, stamp in stamps]
            if source.is_archive:
                names = [(source.path, "")]
            chunk = Chunk(source, source_root(source), tuple(names), has_rows=False)
            items = (item for item in chunk_items(chunk) if item.key in by_key)
            for key, outcome in self._outcomes(items, {}, clock):
                yield by_key[key], outcome

    def _outcomes(
        self, items: Iterator[Item], rows: dict[str, Any], clock: Clock
    ) -> Iterator[tuple[str, Outcome]]:
        """Yield what becomes of the pictures, in their order, by key."""
        count = self.request.batch * (SHAPES if self.runner.found.is_free else 1)
        pending = deque[Future[list[tuple[str, Outcome]]]]()
        try:
            while piece := list(islice(items, count)):
                if self.stopped:
                    raise CancelledError
                pending.append(self.pool.submit(self._embed_piece, piece, rows, clock))
                if len(pending) > self.ahead:
                    yield from pending.popleft().result()
            while pending:
                yield from pending.popleft().result()
        finally:
            for future in pending:
                future.cancel()

    def _embed_piece(
        self, piece: list[Item], rows: dict[str, Any], clock: Clock
    ) -> list[tuple[str, Outcome]]:
        """Embed some pictures in batches of equal shape."""
        outcomes: list[Any] = [None] * len(piece)
        shapes: dict[tuple[tuple[int, ...], ...], list[tuple[int, PreparedPicture]]] = {}
        for index, item in enumerate(piece):
            outcome = _or_failure(item, partial(self._prepare, item, rows.get(item.key), clock))
            if not isinstance(outcome, PreparedPicture):
                outcomes[index] = outcome
                continue
            waiting = shapes.setdefault(outcome.shapes, [])
            waiting.append((index, outcome))
            if len(waiting) == self.request.batch:
                self._run(shapes.pop(outcome.shapes), piece, outcomes, clock)
        for waiting in shapes.values():
            self._run(waiting, piece, outcomes, clock)
        return [(item.key, outcome) for item, outcome in zip(piece, outcomes, strict=True)]

    def _run(
        self,
        batch: list[tuple[int, PreparedPicture]],
        piece: list[Item],
        outcomes: list[Outcome],
        clock: Clock,
    ) -> None:
        """Run the network on a batch, and put the rows where its pictures are."""
        with clock.during("model"):
            values = [prepared.values for _, prepared in batch]
            outputs = self.runner.run(values, self.columns.outputs)
        for position, (index, prepared) in enumerate(batch):
            filled = partial(self.columns.filled, prepared.row, outputs, position)
            outcomes[index] = _or_failure(piece[index], filled)

    def _prepare(
        self, item: Item, before: dict[str, Any] | None, clock: Clock
    ) -> PreparedPicture | Same:
        network = self.runner.found
        with clock.during("read"):
            data = item.read()
            digest = hashlib.sha256(data).hexdigest()
        if before is not None and before["sha256"] == digest and before["error"] is None:
            return Same(item, before["_rowoffset"])
        with clock.during("decode"):
            read = read_picture(data, item.key, network.least if self.request.draft else None)
        with clock.during("resize"):
            values = network.values(read)
        height, width = read.sides
        row = {"key": item.key, "stamp": item.stamp, "width": width, "height": height}
        row["sha256"] = digest
        if "thumbnail" in self.request.extra:
            row["thumbnail"] = thumbnail(read, data)
        return PreparedPicture(values, row)


def _change(outcome: Outcome, before: dict[str, Any] | None) -> str:
    """Return what a picture is counted as; `before` is its earlier row."""
    if isinstance(outcome, Same):
        return "same"
    if isinstance(outcome, Failure):
        return "failed" if before is None or before["error"] != outcome.reason else "same"
    return "added" if before is None or before["error"] is not None else "again"


def _or_failure(item: Item, make: Callable[[], Any]) -> Any:
    """Return what is made of a picture, or the reason why it cannot be made."""
    try:
        return make()
    except (ZooError, WeightsError) as error:
        return Failure(item, str(error))
    except OSError as error:
        return Failure(item, error.strerror or first_line(error))
    except MemoryError as error:
        # Another run may have more memory: the picture gets no row.
        raise BadRequest(
            f"there is not enough memory for {item.key}: leave it out of the sources, or end other "
            "programs."
        ) from error
