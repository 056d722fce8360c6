"""LZ4 frames, decompressed once into a file without a name, out of which any part can be read.

Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Frame_format.md.
"""

from tempfile import TemporaryFile
from threading import Lock
from typing import BinaryIO
from weakref import finalize

import lz4.frame

from weights.containers.bounds import within
from weights.errors import DamagedFile

FRAME_MAGIC = b"\x04\x22\x4d\x18"
FRAME_PIECE = 1 << 16

RATIO = 16
"""Bytes that one of the file may become, beyond those that come for nothing; weights barely halve,
and the format could do 255."""

FREE_CONTENT = 64 << 20


class Content:
    """Content of a frame: a file in the system's folder for such files (`TMPDIR`), gone with this.

    `size` is the number of bytes. `read_into` counts from `start`, for any number of threads.
    """

    def __init__(self, frame: BinaryIO):
        """Decompress all of it. **Raises** `DamagedFile`, and `OSError` where there is no room."""
        self.file, self.start, self.lock = TemporaryFile(), 0, Lock()  # noqa: SIM115
        finalize(self, self.file.close)
        decoder = lz4.frame.LZ4FrameDecompressor()
        try:
            while not decoder.eof:
                more = frame.read(FRAME_PIECE) if decoder.needs_input else b""
                if decoder.needs_input and not more:
                    raise DamagedFile("it ends too early")
                self.file.write(decoder.decompress(more, max_length=FRAME_PIECE))
                within("its content", self.file.tell(), FREE_CONTENT + RATIO * frame.tell())
        except (RuntimeError, EOFError, ValueError) as error:
            raise DamagedFile(str(error)) from error
        self.size = self.file.tell()

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target`, all of which has to be there."""
        with self.lock:
            self.file.seek(self.start + offset)
            self.file.readinto(target)
