"""The rows of a finished dataset, by the pictures that they are of: what is not computed again.

They are looked up in a file of SQLite in the folder of work, which the workers only read. However
many pictures there are, none of them has to hold a list of all.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from weights.opening import open_regular
from weights.parameters import parameter
from zoo.apps.embed.lance_parts import check_table, lance_digests
from zoo.apps.embed.picture_sources import (
    GONE,
    HOLDERS,
    Shard,
    held_origin,
    picture_place,
    printable_name,
)
from zoo.common.errors import BadFile

if TYPE_CHECKING:
    from zoo.apps.embed.part_files import PartFormat

LISTED = "_pictures.jsonl"
"""The file of a finished dataset that has its shards, one a line, and what became of each."""

TABLES = """
create table shards (digest blob primary key, part integer, rows integer, errors text, gone integer)
    without rowid;
create table pictures (origin blob primary key, stamp text, part integer, row integer, sha256 text,
    reason text, holder blob) without rowid;
create table present (origin blob primary key) without rowid;
"""


@dataclass(frozen=True)
class ListedShard:
    """A shard of a finished dataset: its rows, why others are none, and how many of the rows are of
    pictures that are gone."""

    shard: Shard
    rows: int
    errors: Sequence[tuple[str, str]]
    gone: int

    @property
    def line(self) -> str:
        """A line of the list."""
        fields = {"rows": self.rows, "errors": list(self.errors), "gone": self.gone}
        return json.dumps(vars(self.shard) | fields) + "\n"


def read_listed(dataset: Path) -> Iterator[ListedShard]:
    """The shards of a finished dataset. **Raises** `BadFile`."""
    path = dataset / LISTED
    with open_regular(path) as file:
        for line in file:
            try:
                fields = json.loads(line)
                rows, errors, gone = (fields.pop(name) for name in ("rows", "errors", "gone"))
                yield ListedShard(read_shard(fields), rows, [tuple(each) for each in errors], gone)
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                raise BadFile(
                    f"{path} is not what `zoo embed` writes: make the dataset again with "
                    f"{parameter('force')}."
                ) from error


def read_shard(fields: dict[str, Any]) -> Shard:
    """A shard of a line that is read. **Raises** `TypeError` or `KeyError`."""
    return Shard(**fields | {name: tuple(fields[name]) for name in ("names", "stamps")})


def check_untouched(dataset: Path, how: PartFormat, columns: Sequence[str]) -> None:
    """**Raises** `BadFile` where a finished dataset has other columns or rows than it was given."""
    listed = [(each.shard.index, each.rows) for each in read_listed(dataset) if each.rows]
    check_table(dataset, columns, [(how.part(dataset, index), rows) for index, rows in listed])


@dataclass(frozen=True)
class EarlierRow:
    """Where the row of a picture is, and of which bytes; or the reason why there is none."""

    stamp: str
    part: int
    row: int
    sha256: str | None
    reason: str | None


PICTURE_COLUMNS = "stamp, part, row, sha256, reason"


class EarlierRows:
    """Looks rows up, in one thread."""

    def __init__(self, path: Path):
        place = f"file:{quote(str(path))}?immutable=1"
        self.database = sqlite3.connect(place, uri=True)

    def close(self) -> None:
        """Close the database: no row is looked up any more."""
        self.database.close()

    def row(self, origin: str) -> EarlierRow | None:
        """Row of a picture, if there is one."""
        text = f"select {PICTURE_COLUMNS} from pictures where origin = ?"
        record = self.database.execute(text, (os.fsencode(origin),)).fetchone()
        return None if record is None else EarlierRow(*record)

    def shard(self, shard: Shard) -> ListedShard | None:
        """The part of exactly these pictures, if there is one with rows; its index is that of the
        part."""
        text = "select part, rows, errors, gone from shards where digest = ? and rows > 0"
        record = self.database.execute(text, (_digest(shard),)).fetchone()
        if record is None:
            return None
        part, rows, errors, gone = record
        own = Shard(part, shard.kind, shard.place, shard.prefix, shard.names, shard.stamps)
        return ListedShard(own, rows, [tuple(each) for each in json.loads(errors)], gone)

    def held(self, place: str) -> Iterator[tuple[str, EarlierRow]]:
        """The rows of the pictures that a file held, in their order."""
        text = f"select origin, {PICTURE_COLUMNS} from pictures where holder = ? order by part, row"
        for origin, *row in self.database.execute(text, (os.fsencode(place),)):
            yield os.fsdecode(origin), EarlierRow(*row)


def note_earlier(path: Path, dataset: Path, how: PartFormat, shards: Iterator[Shard]) -> None:
    """Write down the rows of a finished dataset, and which of their pictures are present in shards
    that are to be made. **Raises** `BadFile`."""
    with closing(sqlite3.connect(path)) as database:
        # Where this is interrupted, it is done from its beginning again.
        database.executescript("pragma journal_mode = off; pragma synchronous = off;" + TABLES)
        for listed in read_listed(dataset):
            facts = (listed.shard.index, listed.rows, json.dumps(listed.errors), listed.gone)
            digest = _digest(listed.shard)
            database.execute(
                "insert or replace into shards values (?, ?, ?, ?, ?)", (digest, *facts)
            )
            rows = _earlier_pictures(listed, dataset, how)
            database.executemany("insert or replace into pictures values (?,?,?,?,?,?,?)", rows)
        for shard in shards:
            is_held = shard.kind in HOLDERS.values()
            places = [shard.place] if is_held else _origins(shard)
            encoded = ((os.fsencode(each),) for each in places)
            database.executemany("insert or ignore into present values (?)", encoded)
        database.commit()


def gone_shards(path: Path, first: int, count: int) -> Iterator[Shard]:
    """Shards of the rows whose pictures, or the files that held them, are not present."""
    text = """select origin, stamp from pictures where reason is null
        and coalesce(holder, origin) not in present order by part, row"""
    with closing(sqlite3.connect(path)) as database:
        rows = iter(database.execute(text))
        while piece := list(islice(rows, count)):
            names = tuple(os.fsdecode(origin) for origin, _ in piece)
            yield Shard(first, GONE, "", "", names, tuple(stamp for _, stamp in piece))
            first += 1


def _earlier_pictures(
    listed: ListedShard, dataset: Path, how: PartFormat
) -> Iterator[tuple[object, ...]]:
    """A row of the table for each picture of a shard."""
    shard, part = listed.shard, listed.shard.index
    digests = lance_digests(how.part(dataset, part)) if listed.rows else []
    if len(digests) != listed.rows:
        raise BadFile(
            f"{dataset} was changed by another program since it was made: take the pictures in "
            f"with {parameter('force')}, which makes it again."
        )
    if shard.kind in HOLDERS.values():
        holder = os.fsencode(shard.place)
        for row, (key, digest) in enumerate(digests):
            origin = os.fsencode(held_origin(shard.place, key))
            yield origin, "", part, row, digest, None, holder
        return
    places = [os.fsencode(each) for each in _origins(shard)]
    if shard.kind == GONE:
        for row, (_, digest) in enumerate(digests):
            yield places[row], shard.stamps[row], part, row, digest, None, None
        return
    keys = (printable_name(shard.prefix + name) for name in shard.names)
    stamped = dict(zip(keys, zip(places, shard.stamps, strict=True), strict=True))
    for row, (key, digest) in enumerate(digests):
        yield *stamped[key], part, row, digest, None, None
    for key, reason in listed.errors:
        yield *stamped[key], part, -1, None, reason, None


def _origins(shard: Shard) -> list[str]:
    """Where the pictures are that a shard names."""
    if shard.kind == GONE:
        return list(shard.names)
    return [picture_place(shard.place, name) for name in shard.names]


def _digest(shard: Shard) -> bytes:
    """Of all that says which pictures these are."""
    facts = {name: value for name, value in vars(shard).items() if name != "index"}
    return hashlib.sha256(json.dumps(facts).encode()).digest()
