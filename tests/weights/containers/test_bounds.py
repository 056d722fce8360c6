"""Sizes that a file claims are looked at before they are used."""

import json
import struct
import tarfile
import time
import zipfile

import lz4.frame
import pytest

from tests.conftest import GOLDEN
from weights import open_checkpoint
from weights.containers.bounds import MOST_DIMENSIONS, MOST_TENSORS
from weights.errors import NotACheckpoint

SECONDS = 5
"""Of the processor, whatever else it is doing."""


def refused(path, message):
    began = time.process_time()
    with pytest.raises(NotACheckpoint, match=message):
        open_checkpoint(path)
    assert time.process_time() - began < SECONDS


def safetensors_file(path, header, body=b""):
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    return path


def text(characters):
    return b"X" + struct.pack("<I", len(characters)) + characters.encode()


@pytest.mark.parametrize("count", [MOST_DIMENSIONS + 1, 300_000])
def test_a_safetensors_tensor_of_many_dimensions(count, tmp_path):
    entry = {"dtype": "F32", "shape": [(1 << 48) - 1] * count, "data_offsets": [0, 4]}
    path = safetensors_file(tmp_path / "w.safetensors", {"a": entry}, bytes(4))
    refused(path, f"{count} dimensions")


def test_as_many_dimensions_as_are_read(tmp_path):
    entry = {"dtype": "F32", "shape": [1] * MOST_DIMENSIONS, "data_offsets": [0, 4]}
    path = safetensors_file(tmp_path / "w.safetensors", {"a": entry}, bytes(4))
    assert open_checkpoint(path).tensors["a"].shape == (1,) * MOST_DIMENSIONS


def test_a_safetensors_table_of_many_tensors(tmp_path):
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    names = {str(i): empty for i in range(MOST_TENSORS + 1)}
    refused(safetensors_file(tmp_path / "w.safetensors", names), f"{MOST_TENSORS}|header claims")


def test_a_torch_tensor_of_many_dimensions(tmp_path):
    name = b"ctorch._utils\n_rebuild_tensor_v2\n"
    kind = b"ctorch\nFloatStorage\n"
    storage = b"(" + text("storage") + kind + text("0") + text("cpu") + b"K\x01tQ"
    sizes = b"(" + b"K\x01" * 60_000 + b"t"
    call = name + b"(" + storage + b"K\x00" + sizes + sizes + b"tR"
    program = b"\x80\x02}" + text("a") + call + b"s."
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as archive:
        archive.writestr("archive/data.pkl", program)
        archive.writestr("archive/data/0", bytes(4))
    refused(tmp_path / "w.pth", "60000 dimensions")


@pytest.mark.parametrize("claimed", [-1024, -1, 1 << 40])
def test_an_extended_header_of_a_size_that_cannot_be(claimed, tmp_path):
    """The tar format has negative sizes, in base 256, and Python's library passes them on."""
    whole = lz4.frame.decompress((GOLDEN / "equimo_v1_dinov3_nano.tar.lz4").read_bytes())
    info = tarfile.TarInfo("pax")
    info.type = tarfile.XHDTYPE
    header = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    first = b"\xff" if claimed < 0 else b"\x80"
    header[124:136] = first + claimed.to_bytes(11, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(bytes(header) + whole))
    refused(tmp_path / "w.tar.lz4", "an extended header is said to have")
