"""The work on a shard: read, decode, resize, run, write.

Its bytes depend on its pictures and the recipe alone, whoever does it and however often.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from weights.errors import WeightsError
from zoo.apps.embed.earlier_rows import EarlierRow, EarlierRows, ListedShard
from zoo.apps.embed.embed_request import ROWS, EmbedRequest
from zoo.apps.embed.kept_rows import KeptRows
from zoo.apps.embed.lance_parts import lance_digests
from zoo.apps.embed.network import Runner
from zoo.apps.embed.part_files import part_format, part_writer
from zoo.apps.embed.picture_sources import GONE, HOLDERS, Shard
from zoo.apps.embed.placing import placing
from zoo.apps.embed.row_columns import RowColumns, thumbnail
from zoo.apps.embed.shard_items import Item, items
from zoo.apps.embed.work_folder import ShardNote, WorkFolder
from zoo.common.errors import BadFile, BadRequest, ZooError, first_line
from zoo.images.pictures import read_picture

MIXED = 4
"""Batches' worth of pictures that are sorted by shape, where a network takes any."""

STAGES = "read", "decode", "resize", "model", "write"


@dataclass(frozen=True)
class ShardRecipe:
    """All that decides what is made of a shard; a worker elsewhere needs nothing more.

    `place` and `digest` are those of the network that was found.
    """

    place: str
    digest: str
    asked: EmbedRequest
    column: str


@dataclass(frozen=True)
class Prepared:
    """A picture that the network can take, and what is kept of it beside the outputs."""

    values: Any
    row: dict[str, Any]


@dataclass(frozen=True)
class Broken:
    """A picture that cannot be read, and why."""

    key: str
    reason: str


Made = dict[str, Any] | Broken | EarlierRow
"""What becomes of a picture: a row, none, or the row that there is."""


@dataclass
class Clock:
    """Seconds of threads by stage. A run of the network is one thread's, too."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    @contextmanager
    def during(self, stage: str) -> Iterator[None]:
        """Count the time of this thread while the block runs."""
        began = time.thread_time()
        yield
        self.seconds[stage] += time.thread_time() - began


class ShardWorker:
    """Works on shards with threads that it shares between them."""

    def __init__(
        self, recipe: ShardRecipe, runner: Runner, tell: Callable[[int, int], None] | None
    ):
        self.asked, self.runner, self.told = recipe.asked, runner, tell
        self.columns = RowColumns(
            runner.found, recipe.asked.dtype, recipe.asked.extra, recipe.column
        )
        self.work, self.stopped = WorkFolder(recipe.asked.out), False
        # While some threads wait for a file or for a lane, others decode.
        self.ahead = 2 * runner.lanes + 2
        self.pool = ThreadPoolExecutor(2 * runner.lanes)

    def stop(self) -> None:
        """Leave what is not done, and end the threads."""
        self.stopped = True
        self.pool.shutdown(cancel_futures=True)

    def shard(self, offset: int) -> ShardNote:
        """Write the part of a shard, which the list of shards has at an offset.

        **Raises** a `ZooError` where it cannot be written, or the network does not load.
        """
        shard = self.work.shard(offset)
        with self.work.earlier() as earlier:
            whole = None if earlier is None else earlier.shard(shard)
            if whole is None or (whole.gone and self.work.totals.prune):
                note = self._written(shard, earlier)
            else:
                note = self._copied(shard, whole)
        self.work.write_note(note)
        return note

    def _copied(self, shard: Shard, whole: ListedShard) -> ShardNote:
        """A part of the very pictures that one of the dataset is of."""
        how = part_format(self.work.dataset)
        path, gone = how.part(self.work.parts, shard.index), whole.gone
        with placing(path, self.work.folder) as stage:
            shutil.copyfile(how.part(self.work.dataset, whole.shard.index), stage)
        self._tell(whole.rows + len(whole.errors), 0)
        facts = (shard.index, whole.rows, path.stat().st_size, whole.errors)
        return ShardNote(*facts, kept=whole.rows - gone, gone=gone)

    def _written(self, shard: Shard, earlier: EarlierRows | None) -> ShardNote:
        """A part whose rows are made, or taken from those that there are."""
        clock, how = Clock(), part_format(self.work.dataset, self.columns.column)
        path, errors = how.part(self.work.parts, shard.index), list[tuple[str, str]]()
        kept, counts = list[EarlierRow | dict[str, Any]](), Counter[str]()
        older = KeptRows(self.work.dataset, how, self.columns)
        with part_writer(path, self.work.folder, self.columns.schema()) as write:

            def flush() -> None:
                with clock.during("write"):
                    write(older.merged(kept))
                kept.clear()

            for each, what in self._counted(shard, earlier, clock):
                counts[what] += 1
                self._tell(1, int(what not in COUNTED))
                if isinstance(each, Broken):
                    errors.append((each.key, each.reason))
                    if not self.columns.are_appended:
                        continue
                    each = {self.columns.column: None}
                if what == "dropped":
                    continue
                kept.append(each)
                counts["rows"] += 1
                if len(kept) == ROWS:
                    flush()
            if kept:
                flush()
        changes = {name: counts[name] for name in ("kept", "again", "gone", "dropped")}
        fresh = counts.total() - counts["rows"] - sum(counts[name] for name in COUNTED)
        size, seconds = path.stat().st_size, dict(clock.seconds)
        return ShardNote(
            shard.index, counts["rows"], size, errors, **changes, seconds=seconds, fresh=fresh
        )

    def _tell(self, pictures: int, fresh: int) -> None:
        if self.told is not None:
            self.told(pictures, fresh)

    def _counted(
        self, shard: Shard, earlier: EarlierRows | None, clock: Clock
    ) -> Iterator[tuple[Made, str]]:
        """What becomes of the pictures, and as what it is counted; then rows of a file that holds
        many whose pictures it does not hold any more."""
        if earlier is None:
            for each in self._rows(shard, clock):
                yield each, "added"
            return
        earlier_rows, seen = deque[EarlierRow | None](), set[str]()

        def asked() -> Iterator[Item]:
            for item in items(shard):
                row = earlier.row(item.origin)
                earlier_rows.append(row)
                seen.add(item.origin)
                yield replace(item, known=row)

        for each in self._in_order(asked(), clock):
            yield each, _counted_as(each, earlier_rows.popleft(), shard)
        if shard.kind in HOLDERS.values():
            what = "dropped" if self.work.totals.prune else "gone"
            for origin, row in earlier.held(shard.place):
                if origin not in seen:
                    yield row, what

    def _rows(self, shard: Shard, clock: Clock) -> Iterator[Made]:
        """Rows, and what is broken; of rows that there are the same ones, in their order."""
        if not self.columns.are_appended:
            yield from self._in_order(items(shard), clock)
            return
        how = part_format(self.work.dataset)
        first = how.part(self.work.dataset, shard.index)
        digests = dict(lance_digests(first)) if first.is_file() else {}
        left = iter(digests.items())
        pictures = (item for item in items(shard) if item.key in digests)
        for each in self._in_order(pictures, clock):
            assert not isinstance(each, EarlierRow)
            own = each.key if isinstance(each, Broken) else each["key"]
            key, digest = next(left, ("", ""))
            if own != key:
                raise self._other_pictures(own)
            if isinstance(each, Broken) or each["sha256"] == digest:
                yield each
            else:
                yield Broken(key, f"{key} is another picture than the one of its row: put it back.")
        for key, _ in left:
            raise self._other_pictures(key)

    def _other_pictures(self, key: str) -> BadFile:
        return BadFile(
            f"the sources of {self.work.dataset} have other pictures now than when it was made "
            f"({key}): a model can be appended to the same ones alone."
        )

    def _in_order(self, pictures: Iterator[Item], clock: Clock) -> Iterator[Made]:
        """What becomes of the pictures, in their order."""
        mixed = MIXED if self.runner.found.is_free else 1
        count = self.asked.batch * mixed
        waiting = deque[Future[list[Made]]]()
        try:
            while piece := list(islice(pictures, count)):
                if self.stopped:
                    raise CancelledError
                waiting.append(self.pool.submit(self._piece, piece, clock))
                if len(waiting) > self.ahead:
                    yield from waiting.popleft().result()
            while waiting:
                yield from waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()

    def _piece(self, piece: list[Item], clock: Clock) -> list[Made]:
        """Some pictures, in batches of equal shape."""
        prepared = [self._prepared(item, clock) for item in piece]
        shapes: dict[tuple[int, ...], list[int]] = {}
        for index, each in enumerate(prepared):
            if isinstance(each, Prepared):
                shapes.setdefault(each.values.shape, []).append(index)
        done: list[Any] = list(prepared)
        for indices in shapes.values():
            for first in range(0, len(indices), self.asked.batch):
                together = indices[first : first + self.asked.batch]
                values = [done[index].values for index in together]
                with clock.during("model"):
                    outputs = self.runner.run(values, self.columns.outputs)
                for place, index in enumerate(together):
                    row = done[index].row
                    filled = partial(self.columns.filled, row, outputs, place)
                    done[index] = _or_broken(row["key"], filled)
        return done

    def _prepared(self, item: Item, clock: Clock) -> Prepared | Broken | EarlierRow:
        if (earlier := item.known) is not None and item.is_known:
            return earlier if earlier.reason is None else Broken(item.key, earlier.reason)
        return _or_broken(item.key, partial(self._read, item, clock))

    def _read(self, item: Item, clock: Clock) -> Prepared | EarlierRow:
        network = self.runner.found
        with clock.during("read"):
            data = item.read()
            digest = hashlib.sha256(data).hexdigest()
        if item.known is not None and item.known.sha256 == digest:
            return item.known
        with clock.during("decode"):
            read = read_picture(data, item.key, network.least if self.asked.draft else None)
        with clock.during("resize"):
            values = network.values(read)
        height, width = read.sides
        row = {"key": item.key, "width": width, "height": height, "sha256": digest}
        if "thumbnail" in self.asked.extra:
            row["thumbnail"] = thumbnail(read, data)
        return Prepared(values, row)


COUNTED = "kept", "kept broken", "gone", "dropped"
"""What is counted of rows that there are."""


def _counted_as(made: Made, earlier: EarlierRow | None, shard: Shard) -> str:
    """As what a picture is counted that may have been there before."""
    if isinstance(made, EarlierRow):
        return "gone" if shard.kind == GONE else "kept"
    if isinstance(made, Broken):
        return "broken" if earlier is None or earlier.reason != made.reason else "kept broken"
    return "added" if earlier is None or earlier.reason is not None else "again"


def _or_broken(key: str, make: Callable[[], Any]) -> Any:
    """What is made of a picture, or why nothing is."""
    try:
        return make()
    except (ZooError, WeightsError) as error:
        return Broken(key, str(error))
    except OSError as error:
        return Broken(key, error.strerror or first_line(error))
    except MemoryError as error:
        # Another run may have more memory: nothing is noted about the picture.
        raise BadRequest(
            f"there is not enough memory for {key}: leave it out of the sources, or end other "
            "programs."
        ) from error
