"""Random access into an LZ4 frame, without keeping what is decompressed.

One pass over the file, which whoever reads it wants anyway, notes a place to start again every few
megabytes: where a block begins in the file, and the 64 KB before it, which blocks may refer to.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, Self

import lz4.block
import lz4.frame

from weights.containers.bounds import within
from weights.errors import Damaged
from weights.files import FileBytes, sound

MAGIC = b"\x04\x22\x4d\x18"
WINDOW = 64 << 10  # how far back a block may refer
SPACING = 16 << 20  # decompressed bytes between two places to start from

RATIO = 16
"""Bytes that one of the file may become, beyond those that come for nothing; weights barely halve,
and the format could do 255."""

FREE_CONTENT = 64 << 20

FREE_BLOCKS = 10_000
"""Blocks that may be as small as they like; the others hold a kilobyte on average."""

BLOCK_SIZES = {4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}


@dataclass(frozen=True)
class FrameHeader:
    """What the beginning of a frame says about its blocks."""

    length: int
    largest: int
    block_checksums: bool


def read_frame_header(file: BinaryIO) -> FrameHeader:
    """**Raises** `Damaged`."""
    start = file.read(7)
    if len(start) < 7 or start[:4] != MAGIC or start[4] >> 6 != 1:
        raise Damaged("it does not begin as one")
    flags, sizes = start[4], start[5] >> 4 & 7
    if sizes not in BLOCK_SIZES:
        raise Damaged("its block size is unknown")
    if flags & 1:
        raise Damaged("it needs a dictionary")
    length = 7 + (8 if flags & 8 else 0)
    return FrameHeader(length, BLOCK_SIZES[sizes], bool(flags & 16))


def read_block(file: BinaryIO, header: FrameHeader) -> tuple[bytes, bytes]:
    """The next block as it lies in the file, and its body; the one that ends a frame has none.
    **Raises** `Damaged` if it is cut off or too long."""
    head = file.read(4)
    length = int.from_bytes(head, "little") & 0x7FFFFFFF
    if len(head) < 4 or length > header.largest:
        raise Damaged("a block's size makes no sense")
    expected = length + 4 if header.block_checksums and length else length
    rest = file.read(expected)
    if len(rest) < expected:
        raise Damaged("it ends too early")
    return head + rest, rest[:length]


@dataclass(frozen=True)
class Place:
    """Where a block is: its decompressed and its compressed offset, and what precedes it."""

    offset: int
    position: int
    window: bytes

    def after(self, block: bytes, data: bytes) -> Self:
        """Where the block behind this one is, which becomes `data`."""
        window = data if len(data) >= WINDOW else self.window + data
        offset, position = self.offset + len(data), self.position + len(block)
        return replace(self, offset=offset, position=position, window=window[-WINDOW:])


def blocks(file: BinaryIO, places: list[Place]) -> Iterator[bytes]:
    """Decompressed blocks, all checksums verified; appends to `places` on the way."""
    header = read_frame_header(file)
    file.seek(0)
    decoder = lz4.frame.LZ4FrameDecompressor()
    place, count = Place(0, header.length, b""), 0
    try:
        decoder.decompress(file.read(header.length))
        while not decoder.eof:
            if not places or place.offset - places[-1].offset >= SPACING:
                places.append(place)
            block, body = read_block(file, header)
            # Asked without a limit, the decoder makes a small buffer and keeps the rest to itself.
            data = decoder.decompress(block, max_length=header.largest)
            if not body and not decoder.eof:  # a checksum of everything is to come
                decoder.decompress(file.read(4))
                if not decoder.eof:
                    raise Damaged("it ends too early")
            place, count = place.after(block, data), count + 1
            within("its content", place.offset, FREE_CONTENT + RATIO * place.position)
            within("its content (in blocks)", count, FREE_BLOCKS + (place.offset >> 10))
            if data:
                yield data
    except (RuntimeError, EOFError, ValueError) as error:
        raise Damaged(str(error)) from error


class FrameBytes:
    """The decompressed content of a frame, from `start` on."""

    def __init__(self, frame: FileBytes, places: list[Place], start: int):
        self.frame = frame
        self.places = places
        self.start = start
        # Where the last reading ended: reading on in the file's order decompresses nothing twice.
        self.last = places[0]

    def read_into(self, offset: int, target: memoryview) -> None:
        """Decompress from the nearest place before `offset`."""
        offset += self.start
        index = bisect_right(self.places, offset, key=lambda place: place.offset) - 1
        # Another thread may read on while this one decides.
        noted, last = self.places[index], self.last
        place = last if noted.offset <= last.offset <= offset else noted
        damaged = sound(self.frame.path, "LZ4 frame", lz4.block.LZ4BlockError)
        with damaged, self.frame.opened() as file:
            header = read_frame_header(file)
            file.seek(place.position)
            while target:
                self.last = place
                block, data = read_block(file, header)
                if not data:
                    raise Damaged("it ends too early")
                if not block[3] >> 7:  # else it could not be made smaller
                    data = lz4.block.decompress(
                        data, uncompressed_size=header.largest, dict=place.window
                    )
                piece = memoryview(data)[max(0, offset - place.offset) :][: len(target)]
                target[: len(piece)] = piece
                target = target[len(piece) :]
                offset += len(piece)
                place = place.after(block, data)
