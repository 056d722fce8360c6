"""What is written down while a dataset is made: its shards, and which of them are done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from weights.opening import open_regular
from zoo.embedding.about import ABOUT
from zoo.embedding.picture_sources import Shard
from zoo.embedding.placing import STAGED, placing
from zoo.files.staging import write_text

if TYPE_CHECKING:
    from zoo.embedding.part_files import PartFormat

WORK, SHARDS, TOTALS = "_work", "shards.jsonl", "totals.json"


@dataclass(frozen=True)
class ShardNote:
    """A shard that is done: its rows, the size of its part, and what is wrong with which keys."""

    index: int
    rows: int
    bytes: int
    errors: Sequence[tuple[str, str]]
    seconds: dict[str, float] = field(default_factory=dict)


class WorkFolder:
    """A folder in an unfinished dataset."""

    def __init__(self, dataset: Path):
        self.dataset, self.folder = dataset, dataset / WORK

    @property
    def is_there(self) -> bool:
        """Whether the shards were all listed, which is noted last."""
        return (self.folder / ABOUT).is_file()

    def list_shards(self, shards: Iterator[Shard]) -> None:
        """Write down all shards, one a line, and how many there are."""
        count, pictures, known = 0, 0, True
        with (
            placing(self.folder / SHARDS, self.folder) as path,
            path.open("w", encoding="utf-8") as file,
        ):
            for shard in shards:
                file.write(json.dumps(vars(shard)) + "\n")
                count, pictures = count + 1, pictures + len(shard.names)
                known = known and bool(shard.names)
        with placing(self.folder / TOTALS, self.folder) as path:
            write_text(path, json.dumps([count, pictures if known else None]))

    def totals(self) -> tuple[int, int | None]:
        """How many shards and pictures there are; None where only tar files know."""
        with open_regular(self.folder / TOTALS) as file:
            shards, pictures = json.load(file)
        return shards, pictures

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
            told = json.loads(file.readline())
        return Shard(**told | {name: tuple(told[name]) for name in ("names", "stamps")})

    def write_note(self, note: ShardNote) -> None:
        """Write down that a shard is done, when its part is in its place."""
        told = {"rows": note.rows, "bytes": note.bytes, "errors": list(note.errors)}
        with placing(self._note(note.index), self.folder) as path:
            write_text(path, json.dumps(told))

    def note(self, index: int, how: PartFormat) -> ShardNote | None:
        """What is written of a shard whose part is there."""
        try:
            with open_regular(self._note(index)) as file:
                told = json.load(file)
            if how.part(self.dataset, index).stat().st_size != told["bytes"]:
                return None
        except FileNotFoundError:
            return None
        return ShardNote(index, told["rows"], told["bytes"], [tuple(e) for e in told["errors"]])

    def sweep(self) -> None:
        """Remove what workers have left that died."""
        for stage in self.folder.glob(f"{STAGED}*"):
            stage.unlink(missing_ok=True)

    def remove(self) -> None:
        """Nobody needs it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _note(self, index: int) -> Path:
        return self.folder / f"part-{index:06d}.json"
