"""What is opened is a file, and stays the one that it was."""

import os

import numpy as np
import pytest
from safetensors.numpy import save_file

from weights import open_checkpoint
from weights.errors import NotACheckpoint, WeightsError
from weights.opening import open_regular


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_only_files_are_opened(tmp_path, make):
    """A FIFO that nobody writes to keeps nobody waiting."""
    make(tmp_path / "x.safetensors")
    with pytest.raises(OSError, match=r"regular file|[Dd]irectory"):
        open_regular(tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match=r"regular file|is a folder without a checkpoint"):
        open_checkpoint(tmp_path / "x.safetensors")


@pytest.mark.parametrize("written", ["x.safetensors", "new"])
@pytest.mark.parametrize("use", ["read", "sha256"])
def test_a_file_that_changes_is_refused(tmp_path, written, use):
    """In place or by another one; else a digest would be of other bytes than the weights."""
    path = tmp_path / "x.safetensors"
    save_file({"w": np.ones(3, np.float32)}, path)
    os.utime(path, ns=(1, 1))  # two writings may fall into one tick of the clock
    checkpoint = open_checkpoint(path)
    np.testing.assert_array_equal(checkpoint.tensors["w"].read(), 1)
    save_file({"w": np.zeros(3, np.float32)}, tmp_path / written)
    (tmp_path / written).replace(path)
    with pytest.raises(NotACheckpoint, match="changed while it was read"):
        {"read": checkpoint.tensors["w"].read, "sha256": checkpoint.sha256}[use]()
