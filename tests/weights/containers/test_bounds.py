"""Sizes that a file claims are looked at before they are used."""

import io
import json
import struct
import tarfile
import time
import zipfile

import lz4.frame
import numpy as np
import pytest

from tests.conftest import GOLDEN
from weights import open_checkpoint
from weights.containers import lz4 as frames
from weights.containers import npy
from weights.containers.bounds import LARGEST_TABLE, MOST_DIMENSIONS, MOST_TENSORS
from weights.containers.equimo import LARGEST_METADATA
from weights.containers.safetensors import MOST_VALUES
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
    refused(path, f"{count} dimensions|header claims")


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


def test_a_torch_table_of_keys_with_one_hash(tmp_path):
    """Python hashes an integer modulo 2**61 - 1, so each of these collides with all before it."""
    keys = (b"\x8a\x0a" + (k * ((1 << 61) - 1)).to_bytes(10, "little") for k in range(1, 200_000))
    program = b"\x80\x02}(" + b"N".join(keys) + b"Nu."
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as archive:
        archive.writestr("archive/data.pkl", program)
    refused(tmp_path / "w.pth", "cannot be read")


@pytest.mark.parametrize("piece", [b'{"a":0},', b"[],", b"0,"])
def test_a_safetensors_table_of_small_values(piece, tmp_path):
    """An empty object takes 64 bytes in memory and 3 in the file."""
    text = b'{"a":[' + piece * MOST_VALUES + b"0]}"
    (tmp_path / "w.safetensors").write_bytes(struct.pack("<Q", len(text)) + text)
    refused(tmp_path / "w.safetensors", "in values")


def test_a_checkpoint_of_many_files(tmp_path):
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    places = {}
    for file in range(3):
        names = [f"{file}.{i}" for i in range(MOST_TENSORS // 2)]
        safetensors_file(tmp_path / f"{file}.safetensors", dict.fromkeys(names, empty))
        places[names[0]] = f"{file}.safetensors"
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    refused(tmp_path, "its files is said")


@pytest.mark.parametrize("members", [MOST_TENSORS + 100, 100_000])
def test_a_zip_archive_of_many_members(members, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        for number in range(members):
            archive.writestr(f"{number}.npy", b"")
    refused(tmp_path / "w.npz", "in members" if members < LARGEST_TABLE // 50 else "in bytes")


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_BZIP2])
def test_other_methods_of_compression(method, tmp_path):
    """The properties of an LZMA stream may ask for a dictionary of 4 GB."""
    stream = io.BytesIO()
    np.save(stream, np.ones(8, np.float32))
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        archive.writestr("a.npy", stream.getvalue())
    refused(tmp_path / "w.npz", "neither stored nor deflated")


@pytest.mark.parametrize("more", [0, 1])
def test_as_many_records_as_are_read(more, tmp_path):
    record = npy.header((2,), "<f4") + bytes(8)
    (tmp_path / "w.eqx").write_bytes(record * (MOST_TENSORS + more))
    if more:
        refused(tmp_path / "w.eqx", f"more than {MOST_TENSORS} records")
    else:
        assert len(open_checkpoint(tmp_path / "w.eqx").tensors) == MOST_TENSORS


def archive_of(path, start, content):
    """An Equimo archive whose weights begin so, and go on so until they are large."""
    info = tarfile.TarInfo("weights.eqx")
    info.size = frames.FREE_CONTENT * frames.RATIO
    with lz4.frame.open(path, "wb") as file:
        file.write(info.tobuf() + start)
        for _ in range(info.size // len(content)):
            file.write(content)
    return path


def test_a_frame_that_becomes_far_more_than_it_is(tmp_path):
    header = npy.header((frames.FREE_CONTENT * frames.RATIO // 4 - 32,), "<f4")
    path = archive_of(tmp_path / "w.tar.lz4", header, bytes(1 << 24))
    refused(path, "its content is said to have")


def test_a_frame_of_empty_blocks(tmp_path):
    with lz4.frame.LZ4FrameCompressor(auto_flush=True) as frame:
        blocks = b"\x01\x00\x00\x00\x00" * (frames.FREE_BLOCKS + 1)
        (tmp_path / "w.tar.lz4").write_bytes(frame.begin() + blocks + frame.flush())
    refused(tmp_path / "w.tar.lz4", "in blocks")


def extended(size):
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def test_an_extended_header_of_digits(tmp_path):
    """Looking for a number before a word takes long where everything is a number."""
    digits = b"1" * LARGEST_METADATA
    following = tarfile.TarInfo("metadata.json").tobuf()
    whole = extended(len(digits)) + digits + following
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(whole))
    refused(tmp_path / "w.tar.lz4", "is missing|is not JSON")


@pytest.mark.parametrize("claimed", [-1024, -1, 1 << 40])
def test_an_extended_header_of_a_size_that_cannot_be(claimed, tmp_path):
    """The tar format has negative sizes, in base 256, and Python's library passes them on."""
    whole = lz4.frame.decompress((GOLDEN / "equimo_v1_dinov3_nano.tar.lz4").read_bytes())
    header = bytearray(extended(0))
    first = b"\xff" if claimed < 0 else b"\x80"
    header[124:136] = first + claimed.to_bytes(11, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(bytes(header) + whole))
    refused(tmp_path / "w.tar.lz4", "an extended header is said to have")
