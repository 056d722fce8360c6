"""A run of `.npy` records, as Equinox writes the leaves of a tree one after the other.

Source: `numpy.lib.format`. Only headers in the form that numpy itself writes are read, by a
pattern; a header is a Python expression, and evaluating one that somebody made up is no use.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol

from weights.errors import NotACheckpoint

MAGIC = b"\x93NUMPY"

LARGEST_HEADER = 1 << 14

MOST_RECORDS = 100_000

HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d+)', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d+, )*(?:\d+,?)?)\), \} *\n"
)

DTYPES: dict[str, tuple[str, int]] = {
    "<f4": ("float32", 4),
    "<f2": ("float16", 2),
    # What numpy makes of bfloat16, which it does not know.
    "|V2": ("bfloat16", 2),
    "<V2": ("bfloat16", 2),
    "<f8": ("float64", 8),
    "|b1": ("bool", 1),
    "|i1": ("int8", 1),
    "|u1": ("uint8", 1),
    "<i2": ("int16", 2),
    "<i4": ("int32", 4),
    "<i8": ("int64", 8),
    "<u2": ("uint16", 2),
    "<u4": ("uint32", 4),
    "<u8": ("uint64", 8),
}


class BadRecord(NotACheckpoint):
    """The bytes are no record that numpy would write for an array of numbers."""


class Readable(Protocol):
    """Bytes in their order."""

    def read(self, count: int, /) -> bytes:
        """The next bytes, fewer only at the end."""
        ...


class Stream(Readable, Protocol):
    """The same, some of which can be left out."""

    def skip(self, count: int) -> None:
        """Pass over bytes."""
        ...


@dataclass(frozen=True)
class Header:
    """What precedes the values of an array: its own length, the array, and the values' bytes."""

    length: int
    shape: tuple[int, ...]
    dtype: str
    size: int
    fortran: bool


@dataclass(frozen=True)
class Record:
    """An array: where its values begin, counted from the first record, and what they are."""

    offset: int
    shape: tuple[int, ...]
    dtype: str


def scan(stream: Stream, size: int) -> Iterator[Record]:
    """The records in `size` bytes; values are passed over. **Raises** `BadRecord`."""
    position = 0
    for _ in range(MOST_RECORDS):
        if position == size:
            return
        header = read_header(stream)
        if header.fortran:
            raise BadRecord("an array in Fortran's order")
        position += header.length
        if header.size > size - position:
            raise BadRecord(f"a record claims {header.size} bytes where {size - position} are left")
        yield Record(position, header.shape, header.dtype)
        stream.skip(header.size)
        position += header.size
    raise BadRecord(f"more than {MOST_RECORDS} records")


class Seekable:
    """A file whose values are left unread."""

    def __init__(self, file: BinaryIO):
        self.file = file

    def read(self, count: int, /) -> bytes:
        return self.file.read(count)

    def skip(self, count: int) -> None:
        self.file.seek(count, os.SEEK_CUR)


def read_header(stream: Readable) -> Header:
    """The header that comes next. **Raises** `BadRecord`."""
    start = stream.read(8)
    if start[:6] != MAGIC or start[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise BadRecord("a record does not begin as one")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > LARGEST_HEADER:
        raise BadRecord(f"a header claims {length} bytes")
    found = HEADER.fullmatch(stream.read(length))
    if found is None:
        raise BadRecord("a header does not describe an array of numbers")
    code = found[1].decode()
    if code not in DTYPES:
        raise BadRecord(f"an array of type {code}")
    numbers = tuple(int(number) for number in found[3].replace(b",", b" ").split())
    if any(number >= 1 << 48 for number in numbers):
        raise BadRecord("an array beyond all sizes")
    dtype, bytes_each = DTYPES[code]
    size = math.prod(numbers) * bytes_each
    fortran = found[2] == b"True" and len(numbers) > 1
    return Header(8 + width + length, numbers, dtype, size, fortran)


def header(shape: tuple[int, ...], code: str) -> bytes:
    """What precedes the values of an array, as numpy writes it (format 1.0)."""
    sizes = f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {sizes}, }}"
    # numpy leaves room for the first size to grow to 21 digits, then pads to 64 bytes.
    text += " " * (21 - len(str(shape[0])) if shape else 0)
    padding = -(len(MAGIC) + 4 + len(text) + 1) % 64
    text += " " * padding + "\n"
    return MAGIC + b"\x01\x00" + len(text).to_bytes(2, "little") + text.encode("latin1")
