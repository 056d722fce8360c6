"""Random access into an LZ4 frame, without keeping what is decompressed.

One pass over the file, which whoever reads it wants anyway, notes a place to start again every few
megabytes: where a block begins in the file, and the 64 KB before it, which blocks may refer to.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, cast

import lz4.block
import lz4.frame

from weights.errors import NotACheckpoint

MAGIC = b"\x04\x22\x4d\x18"

WINDOW = 64 << 10
"""How far back a block may refer."""

SPACING = 16 << 20
"""Decompressed bytes between two places to start from."""

BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


class BadFrame(NotACheckpoint):
    """The bytes are no LZ4 frame, or a damaged one."""


@dataclass(frozen=True)
class Place:
    """A block: its decompressed and its compressed offset, and what precedes it."""

    offset: int
    position: int
    window: bytes


@dataclass(frozen=True)
class Header:
    """What the beginning of a frame says about its blocks."""

    length: int
    largest: int
    block_checksums: bool


def read_header(file: BinaryIO) -> Header:
    """**Raises** `BadFrame`."""
    start = file.read(7)
    if len(start) < 7 or start[:4] != MAGIC or start[4] >> 6 != 1:
        raise BadFrame("it does not begin as one")
    flags, sizes = start[4], start[5] >> 4 & 7
    if sizes not in BLOCK_SIZES:
        raise BadFrame("its block size is unknown")
    if flags & 1:
        raise BadFrame("it needs a dictionary")
    length = 7 + (8 if flags & 8 else 0)
    return Header(length, BLOCK_SIZES[sizes], bool(flags & 16))


def read_block(file: BinaryIO, header: Header) -> bytes:
    """The next block with its size and checksum; four zeros at the end of the frame."""
    size = file.read(4)
    length = int.from_bytes(size, "little") & 0x7FFFFFFF
    if len(size) < 4 or length > header.largest:
        raise BadFrame("a block's size makes no sense")
    rest = length + (4 if header.block_checksums and length else 0)
    body = file.read(rest)
    if len(body) < rest:
        raise BadFrame("it ends too early")
    return size + body


def blocks(file: BinaryIO, places: list[Place]) -> Iterator[bytes]:
    """Decompressed blocks, all checksums verified; appends to `places` on the way."""
    header = read_header(file)
    file.seek(0)
    decoder = lz4.frame.LZ4FrameDecompressor()
    offset, position, window = 0, header.length, b""
    try:
        decoder.decompress(file.read(header.length))
        while not decoder.eof:
            if not places or offset - places[-1].offset >= SPACING:
                places.append(Place(offset, position, window))
            block = read_block(file, header)
            # The end may be followed by a checksum of everything.
            tail = file.read(4) if block == b"\0\0\0\0" else b""
            data = cast(bytes, decoder.decompress(block + tail))
            if block == b"\0\0\0\0" and not decoder.eof:
                raise BadFrame("it ends too early")
            position += len(block)
            offset += len(data)
            window = (window + data)[-WINDOW:] if len(data) < WINDOW else data[-WINDOW:]
            if data:
                yield data
    except (RuntimeError, EOFError, ValueError) as error:
        raise BadFrame(str(error)) from error


class FrameBytes:
    """The decompressed content of a frame, from `start` on."""

    def __init__(self, path: Path, places: list[Place], start: int):
        self.path = path
        self.places = places
        self.start = start

    def read_into(self, offset: int, target: memoryview) -> None:
        """Decompress from the nearest place before `offset`."""
        offset += self.start
        index = bisect_right([place.offset for place in self.places], offset) - 1
        place = self.places[index]
        with self.path.open("rb") as file:
            header = read_header(file)
            file.seek(place.position)
            position, window = place.offset, place.window
            while target:
                data = decode(read_block(file, header), header, window)
                window = data[-WINDOW:] if len(data) >= WINDOW else (window + data)[-WINDOW:]
                skipped = max(0, offset - position)
                piece = memoryview(data)[skipped : skipped + len(target)]
                target[: len(piece)] = piece
                target = target[len(piece) :]
                offset += len(piece)
                position += len(data)


def decode(block: bytes, header: Header, window: bytes) -> bytes:
    """One block's content."""
    size = int.from_bytes(block[:4], "little")
    body = block[4 : 4 + (size & 0x7FFFFFFF)]
    if not body:
        raise BadFrame("it ends too early")
    if size >> 31:
        return body
    try:
        data = lz4.block.decompress(body, uncompressed_size=header.largest, dict=window)
    except lz4.block.LZ4BlockError as error:
        raise BadFrame(str(error)) from error
    return cast(bytes, data)
