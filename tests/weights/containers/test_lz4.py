"""LZ4 frames, against the library's own compression of all its kinds."""

import io
import itertools

import lz4.frame
import numpy as np
import pytest

from weights.containers.lz4 import Content
from weights.errors import Damaged

SWITCHES = ("block_linked", "content_checksum", "block_checksum", "store_size")


@pytest.mark.parametrize("block_size", [0, 4, 5, 6, 7])
def test_any_range_of_any_frame(block_size):
    """Noise, zeros and repeats; and none of them where the file ends early."""
    rng = np.random.default_rng(block_size)
    for on in itertools.product([False, True], repeat=4):
        size = int(rng.integers(0, 3_000_000))
        noise = rng.integers(0, 256, size // 3, dtype=np.uint8).tobytes()
        whole = noise + bytes(size) + b"abc" * 500
        frame = lz4.frame.compress(
            whole, block_size=block_size, **dict(zip(SWITCHES, on, strict=True))
        )
        content = Content(io.BytesIO(frame))
        assert content.size == len(whole)
        for content.start in (0, int(rng.integers(1, len(whole)))):
            target = bytearray(len(whole) - content.start)
            content.read_into(0, memoryview(target))
            assert target == whole[content.start :]
        for end in (3, 10, len(frame) // 2, len(frame) - 1):
            with pytest.raises(Damaged):
                Content(io.BytesIO(frame[:end]))


def test_flipped_bytes_do_not_pass_the_checksum():
    content = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
    frame = bytearray(lz4.frame.compress(content, content_checksum=True))
    for index in range(100, len(frame), 30_000):
        frame[index] ^= 1
        with pytest.raises(Damaged):
            Content(io.BytesIO(frame))
        frame[index] ^= 1
