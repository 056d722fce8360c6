"""What is written down while a dataset is made: its shards, and which of them are done."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from weights.opening import open_regular
from zoo.apps.embed.about import ABOUT, read_about
from zoo.apps.embed.earlier_rows import EarlierRows, gone_shards, note_earlier, read_shard
from zoo.apps.embed.picture_sources import Shard
from zoo.apps.embed.placing import STAGED, placing
from zoo.common.staging import write_text

if TYPE_CHECKING:
    from zoo.apps.embed.part_files import PartFormat

WORK, SHARDS, TOTALS = "_work", "shards.jsonl", "totals.json"
EARLIER, MOVING = "earlier.sqlite", "moving"

OF_A_RUN = "seconds", "fresh"
"""What is not written down of a shard."""


@dataclass(frozen=True)
class Totals:
    """Counts that are known when all shards are listed. The pictures are None where only tar files
    know; `passed` counts files that are no pictures, and `prune` says whether rows of pictures that
    are gone go, too: so many as were `dropped` of those that are named one by one."""

    shards: int
    pictures: int | None
    passed: dict[str, int]
    prune: bool = False
    dropped: int = 0


@dataclass(frozen=True)
class ShardNote:
    """A shard that is done: its rows, the size of its part, and what is wrong with which keys.

    Of the rows some are as they were, some are of pictures that were others before, and some of
    pictures that are gone; `dropped` would be among these. `fresh` pictures were read and run.
    """

    index: int
    rows: int
    bytes: int
    errors: Sequence[tuple[str, str]]
    kept: int = 0
    again: int = 0
    gone: int = 0
    dropped: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    fresh: int = 0


class WorkFolder:
    """A folder in an unfinished dataset."""

    def __init__(self, dataset: Path):
        self.dataset, self.folder = dataset, dataset / WORK

    @property
    def is_there(self) -> bool:
        """Whether the shards were all listed, which is noted last."""
        return (self.folder / ABOUT).is_file()

    @property
    def is_update(self) -> bool:
        """Whether there is a finished dataset already, of which rows are kept."""
        return (self.folder / EARLIER).is_file()

    @property
    def parts(self) -> Path:
        """The folder of the parts that are made, as `PartFormat.part` takes it: beside those of a
        dataset that stays as it is until all are done."""
        return self.folder / "new" if self.is_update else self.dataset

    @property
    def is_moving(self) -> bool:
        """Whether all parts are done, and go to their places."""
        return (self.folder / MOVING).is_file()

    @contextmanager
    def earlier(self) -> Generator[EarlierRows | None]:
        """The rows that there are, in a dataset that is made anew."""
        if not self.is_update:
            yield None
            return
        with closing(EarlierRows(self.folder / EARLIER)) as rows:
            yield rows

    def list_shards(self, shards: Iterator[Shard], passed: Counter[str], prune: bool) -> None:
        """Write down all shards, one a line, and how many there are."""
        count, pictures, counted = 0, 0, True
        with (
            placing(self.folder / SHARDS, self.folder) as path,
            path.open("w", encoding="utf-8") as file,
        ):
            for shard in shards:
                file.write(json.dumps(vars(shard)) + "\n")
                count, pictures = count + 1, pictures + len(shard.names)
                counted = counted and bool(shard.names)
        self._write_totals(Totals(count, pictures if counted else None, passed, prune))

    def note_earlier(self, how: PartFormat) -> None:
        """Write down which rows there are of what is listed, and list those of no picture, too.
        **Raises** `BadFile`."""
        totals, place, size = self.totals, self.folder / EARLIER, read_about(self.dataset).shard
        with placing(place, self.folder) as path:
            note_earlier(path, self.dataset, how, self.all_shards())
        if totals.prune:
            gone = sum(len(shard.names) for shard in gone_shards(place, 0, size))
            self._write_totals(replace(totals, dropped=gone))
            return
        with (self.folder / SHARDS).open("a", encoding="utf-8") as file:
            for shard in gone_shards(place, totals.shards, size):
                file.write(json.dumps(vars(shard)) + "\n")
                pictures = None if totals.pictures is None else totals.pictures + len(shard.names)
                totals = replace(totals, shards=totals.shards + 1, pictures=pictures)
        self._write_totals(totals)

    def _write_totals(self, totals: Totals) -> None:
        with placing(self.folder / TOTALS, self.folder) as path:
            write_text(path, json.dumps(vars(totals)))

    @property
    def totals(self) -> Totals:
        """How many shards and pictures there are."""
        with open_regular(self.folder / TOTALS) as file:
            return Totals(**json.load(file))

    def all_shards(self) -> Iterator[Shard]:
        """The shards, in their order."""
        with open_regular(self.folder / SHARDS) as file:
            for line in file:
                yield read_shard(json.loads(line))

    def shards(self) -> Iterator[tuple[int, int]]:
        """The number of each shard, and where it is in the list."""
        offset = 0
        with open_regular(self.folder / SHARDS) as file:
            for index, line in enumerate(file):
                yield index, offset
                offset += len(line)

    def shard(self, offset: int) -> Shard:
        """The shard at a place of the list."""
        with open_regular(self.folder / SHARDS) as file:
            file.seek(offset)
            return read_shard(json.loads(file.readline()))

    def write_note(self, note: ShardNote) -> None:
        """Write down that a shard is done, when its part is in its place."""
        fields = {name: value for name, value in vars(note).items() if name not in OF_A_RUN}
        with placing(self._note(note.index), self.folder) as path:
            write_text(path, json.dumps(fields))

    def note(self, index: int, how: PartFormat) -> ShardNote | None:
        """Note of a shard whose part is there."""
        try:
            with open_regular(self._note(index)) as file:
                fields = json.load(file)
            size = None if self.is_moving else how.part(self.parts, index).stat().st_size
        except FileNotFoundError:
            return None
        if size not in (None, fields["bytes"]):
            return None
        return ShardNote(**fields | {"errors": [tuple(each) for each in fields["errors"]]})

    def begin_moving(self) -> None:
        """Write down that all parts are done: from here on none is made again."""
        with placing(self.folder / MOVING, self.folder) as path:
            write_text(path, "")

    def sweep(self) -> None:
        """Remove what workers have left that died."""
        for stage in self.folder.glob(f"{STAGED}*"):
            stage.unlink(missing_ok=True)

    def remove(self) -> None:
        """Nobody needs it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _note(self, index: int) -> Path:
        return self.folder / f"part-{index:06d}.json"
