"""A digest that is taken in a thread is that of the file, and nobody waits for one in vain."""

import hashlib
import time

import numpy as np
import pytest

from weights import open_checkpoint
from weights.errors import WeightsError
from weights.files import PIECE
from weights.sources.hashing import hashing
from weights.writers.safetensors_writer import write_arrays


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "model.safetensors"
    write_arrays(path, {"a": np.arange(PIECE // 4, dtype=np.float32)}, {})
    return open_checkpoint(path)


def test_the_digest_of_the_file(checkpoint):
    with hashing(checkpoint) as digest:
        assert digest() == hashlib.sha256(checkpoint.path.read_bytes()).hexdigest()
    assert digest() == checkpoint.sha256()
    checkpoint.path.unlink()
    with hashing(checkpoint) as digest, pytest.raises(FileNotFoundError):
        digest()


def test_a_block_that_ends_stops_it(checkpoint, monkeypatch):
    pieces = []

    def slowly(self, step):
        while True:
            pieces.append(time.sleep(0.001))
            step(1)

    monkeypatch.setattr(type(checkpoint), "sha256", slowly)
    with pytest.raises(WeightsError), hashing(checkpoint):
        while not pieces:
            time.sleep(0.001)
        raise WeightsError("it fits no model")
