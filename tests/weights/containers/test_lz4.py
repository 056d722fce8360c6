"""Random access into LZ4 frames, against the library's own decompression."""

import io
import itertools

import lz4.frame
import numpy as np
import pytest

from weights.containers import lz4 as ours
from weights.errors import Damaged
from weights.files import FileBytes


class Busy(ours.FrameBytes):
    """Read by other threads, too: whenever one looks where it was, another has been elsewhere."""

    @property
    def last(self):
        return next(self.elsewhere)

    @last.setter
    def last(self, place):
        self.elsewhere = itertools.cycle(self.places)


@pytest.mark.parametrize("block_size", [0, 4, 5, 6, 7])
@pytest.mark.parametrize("linked", [True, False])
def test_any_range_of_any_frame(block_size, linked, tmp_path, monkeypatch):
    """Noise, zeros and repeats, with and without checksums and sizes; one thread or several."""
    monkeypatch.setattr(ours, "SPACING", 100_000)
    rng = np.random.default_rng(block_size)
    for trial in (1, 2, 4):
        size = int(rng.integers(0, 2_000_000))
        noise = rng.integers(0, 256, size // 3, dtype=np.uint8).tobytes()
        content = (noise + bytes(size) + b"abc" * 500) * int(rng.integers(1, 4))
        frame = lz4.frame.compress(
            content,
            block_size=block_size,
            block_linked=linked,
            content_checksum=bool(trial & 1),
            block_checksum=bool(trial & 2),
            store_size=bool(trial & 4),
        )
        (tmp_path / "frame").write_bytes(frame)
        places: list[ours.Place] = []
        assert b"".join(ours.blocks(io.BytesIO(frame), places)) == content
        file = FileBytes(tmp_path / "frame")
        for source in (ours.FrameBytes(file, places, 0), Busy(file, places, 0)) * 8:
            start = int(rng.integers(0, len(content)))
            target = bytearray(int(rng.integers(0, len(content) - start + 1)))
            source.read_into(start, memoryview(target))
            assert target == content[start : start + len(target)]


def test_flipped_bytes_do_not_pass_the_checksum():
    content = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
    frame = bytearray(lz4.frame.compress(content, content_checksum=True))
    for index in range(100, len(frame), 30_000):
        frame[index] ^= 1
        with pytest.raises(Damaged):
            list(ours.blocks(io.BytesIO(bytes(frame)), []))
        frame[index] ^= 1
