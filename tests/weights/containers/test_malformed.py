"""Files that break one rule of their format. The message names the rule."""

import io
import json
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.weights.containers.pickles import (
    pickle_one_tensor,
    pickle_storage,
    pickle_table,
    pickle_tensor,
    text,
)
from tests.weights.containers.test_hostile import assert_refused, equimo_archive, member, pth_file
from weights import open_checkpoint
from weights.errors import NotACheckpoint
from weights.files import FileBytes

ONES = np.ones((2, 3), np.float32)
TWO_SIZES = b"K\x01K\x02\x86"
"""The pickle operations of the tuple (1, 2)."""


def numpy_bytes(array, **options):
    """Return the bytes of an `.npy` file."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, **options)
    return stream.getvalue()


# ------------------------------------------------------------------------------- PyTorch archives


PICKLES = {
    "two tensors of one name": (
        pickle_table(
            *(text("a.b"), pickle_tensor()),
            *(text("a"), b"}" + text("b") + pickle_tensor() + b"s"),
        ),
        "two tensors 'a.b'",
    ),
    "an unknown operation": (b"\x80\x05\x97.", "its program has the operation NEXT_BUFFER"),
    "a value below a mark": (b"\x80\x02" + text("a") + b"(\x85.", "tables cannot be read"),
    "a name of a number": (b"\x80\x02K\x01K\x02\x93.", "tables cannot be read"),
    "beyond the storage": (
        pickle_one_tensor(shape=TWO_SIZES, strides=TWO_SIZES),
        "a reaches beyond",
    ),
    "beyond the member": (
        pickle_one_tensor(storage=pickle_storage(count=b"K\x02")),
        "data/0 is missing or too",
    ),
    "no member": (
        pickle_one_tensor(storage=pickle_storage(key="7")),
        "data/7 is missing or too",
    ),
    "a negative storage": (
        pickle_one_tensor(storage=pickle_storage(count=b"J\xff\xff\xff\xff")),
        "tables cannot be read",
    ),
}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(name, tmp_path):
    program, message = PICKLES[name]
    assert_refused(pth_file(tmp_path / "w.pth", program), message, NotACheckpoint)


def test_a_handwritten_pickle_is_read(tmp_path):
    """The rows above differ in one part from a valid file."""
    path = pth_file(tmp_path / "w.pth", pickle_one_tensor())
    (value,) = open_checkpoint(path).tensors.values()
    np.testing.assert_array_equal(value.read(), [0])


def test_tensors_of_other_dtypes_cannot_be_read(tmp_path):
    storage = pickle_storage(kind=b"QInt8Storage")
    path = pth_file(tmp_path / "w.pth", pickle_one_tensor(storage=storage))
    (value,) = open_checkpoint(path).tensors.values()
    assert (value.shape, value.dtype) == ((1,), "torch.QInt8Storage")
    with pytest.raises(TypeError):
        value.read()


class Subclass(torch.Tensor):
    """A user's subclass of tensors."""


def test_a_tensor_of_a_subclass_is_read(tmp_path):
    torch.save({"a": torch.tensor(ONES).as_subclass(Subclass)}, tmp_path / "w.pth")
    (value,) = open_checkpoint(tmp_path / "w.pth").tensors.values()
    np.testing.assert_array_equal(value.read(), ONES)


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ({"w/data.pkl": b"", "x/data.pkl": b""}, "not contain exactly one data.pkl"),
        ({"w/x/data.pkl": b"", "w/data/0": b""}, "not contain exactly one data.pkl"),
        ({"w/data.pkl": b"", "w/byteorder": b"big"}, "its numbers are big-endian"),
    ],
)
def test_members(members, message, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.pth", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert_refused(tmp_path / "w.pth", message, NotACheckpoint)


@pytest.mark.parametrize(
    ("field", "message"),
    [("offset", "not at the offset that its archive claims"), ("size", "is cut off")],
)
def test_false_fields_of_members(field, message, tmp_path):
    """The table at the end of an archive has the offset and the size of each member."""
    path = pth_file(tmp_path / "w.pth", pickle_one_tensor())
    data = bytearray(path.read_bytes())
    last = data.rindex(b"PK\x01\x02")
    if field == "offset":
        (offset,) = struct.unpack_from("<I", data, last + 42)
        struct.pack_into("<I", data, last + 42, offset + 1)
    else:
        struct.pack_into("<II", data, last + 20, len(data), len(data))
    path.write_bytes(data)
    assert_refused(path, message, NotACheckpoint)


# ------------------------------------------------------------------------------- arrays of numpy


RECORDS = {
    "Fortran order": (numpy_bytes(np.asfortranarray(ONES)), "an array is in Fortran order"),
    "complex numbers": (numpy_bytes(ONES.astype(np.complex64)), "an array of type <c8"),
    "too short": (numpy_bytes(ONES)[:-1], "a record claims 24 bytes where 23 are left"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_records(name, tmp_path):
    record, message = RECORDS[name]
    (tmp_path / "w.eqx").write_bytes(numpy_bytes(ONES) + record)
    assert_refused(tmp_path / "w.eqx", message, NotACheckpoint)


def test_a_vector_in_fortran_order_is_read(tmp_path):
    """Its numbers have the same order in both."""
    header, description = io.BytesIO(), {"descr": "<f4", "fortran_order": True, "shape": (3,)}
    np.lib.format.write_array_header_1_0(header, description)
    (tmp_path / "w.eqx").write_bytes(header.getvalue() + ONES[0].tobytes())
    (value,) = open_checkpoint(tmp_path / "w.eqx").tensors.values()
    np.testing.assert_array_equal(value.read(), ONES[0])


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_member_with_more_bytes_than_its_array(method, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        archive.writestr("a.npy", numpy_bytes(ONES) + b"\0")
    assert_refused(tmp_path / "w.npz", "153 bytes, not the size of its array", NotACheckpoint)


# -------------------------------------------------------------- Equimo archives and safetensors


@pytest.mark.parametrize(
    ("members", "options", "message"),
    [
        ([(member("metadata.json"), b"{}")], {}, "two members metadata.json"),
        ([(member("weights.eqx"), bytes(9000))], {"end": 3000}, "it ends too early"),
        ([(member("weights.eqx"), b"")], {"metadata": b"[]"}, "its table is not a JSON object"),
    ],
)
def test_archives(members, options, message, tmp_path):
    path = tmp_path / "w.tar.lz4"
    equimo_archive(path, members, **options)
    assert_refused(path, message, NotACheckpoint)


def test_a_file_of_an_index_that_lacks_a_tensor(tmp_path):
    save_file({"a": ONES}, tmp_path / "1.safetensors")
    index = {"weight_map": {"a": "1.safetensors", "b": "1.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert_refused(tmp_path, "1.safetensors lacks b", NotACheckpoint)


def test_positions_in_a_file(tmp_path):
    (tmp_path / "w").write_bytes(b"abcdef")
    stream = FileBytes(tmp_path / "w").stream()
    assert stream.seek(-2, io.SEEK_END) == 4 and stream.read() == b"ef"
    assert stream.seek(1) == 1 and stream.seek(2, io.SEEK_CUR) == 3
    with pytest.raises(ValueError, match="before the beginning"):
        stream.seek(-7, io.SEEK_END)
    with pytest.raises(NotACheckpoint, match="ends too early"):
        FileBytes(tmp_path / "w").read_into(3, memoryview(bytearray(4)))
