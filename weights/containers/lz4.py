"""LZ4 frames, decompressed once into an unnamed temporary file that can be read at any position.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO
from weakref import finalize

import lz4.frame

from weights.containers.bounds import check_count
from weights.errors import DamagedFile

FRAME_MAGIC = b"\x04\x22\x4d\x18"
FRAME_PIECE = 1 << 16

RATIO = 16
"""Largest number of decompressed bytes for each byte of the file, in addition to `FREE_CONTENT`.
Weights are compressed to about one half. The format allows a ratio of 255."""

FREE_CONTENT = 64 << 20


class Content:
    """Decompressed content of an LZ4 frame, in a temporary file (see `TMPDIR`) that is deleted with
    this object.

    `size` is the number of bytes. `start` can be set; `read_into` counts offsets from it.
    `read_into` may be called from several threads.
    """

    def __init__(self, frame: BinaryIO):
        """Decompress the frame in a file.

        **Raises** `DamagedFile` if the frame is invalid or its content is suspiciously large, and
        `OSError` if the disk is full.
        """
        self.file, self.start, self.lock = TemporaryFile(), 0, Lock()  # noqa: SIM115
        finalize(self, self.file.close)
        decoder = lz4.frame.LZ4FrameDecompressor()
        try:
            while not decoder.eof:
                chunk = frame.read(FRAME_PIECE) if decoder.needs_input else b""
                if decoder.needs_input and not chunk:
                    raise DamagedFile("it ends too early")
                self.file.write(decoder.decompress(chunk, max_length=FRAME_PIECE))
                check_count("its content", self.file.tell(), FREE_CONTENT + RATIO * frame.tell())
        except (RuntimeError, EOFError, ValueError) as error:
            raise DamagedFile(str(error)) from error
        self.size = self.file.tell()

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes at an offset from `start`. The content must be long enough:
        otherwise the rest of `target` is unchanged."""
        with self.lock:
            self.file.seek(self.start + offset)
            self.file.readinto(target)
