"""Checkpoints that are damaged, too large or malicious.

Each has to be refused in one sentence and little time, and no code in it may run. These files are
written by hand, those of `tests/files` are changed at random.
"""

import io
import json
import os
import pickle
import struct
import subprocess
import sys
import tarfile
import time
import zipfile

import lz4.frame
import numpy as np
import pytest
import torch
from safetensors.numpy import save_file

from tests.conftest import GOLDEN
from tests.files.changes import FORBIDDEN_PROGRAMS
from tests.weights.containers.pickles import pickle_one_tensor, text
from weights import open_checkpoint
from weights.containers import lz4 as frames
from weights.containers import npy
from weights.containers.bounds import MAX_DIMENSIONS, MAX_TENSORS
from weights.containers.equimo import MAX_METADATA_BYTES
from weights.containers.safetensors import MAX_VALUES
from weights.errors import NotACheckpoint, UnsafeCheckpoint, WeightsError, WrongDigest
from weights.opening import open_regular


def assert_refused(path, message=None, kind=WeightsError):
    """Assert that a file is refused in a printable sentence, in 5 seconds of processor time.

    No file may be added to its folder.
    """
    start, paths_before = time.process_time(), sorted(path.parent.rglob("*"))
    with pytest.raises(kind, match=message) as error:
        for tensor in open_checkpoint(path).tensors.values():
            tensor.read()
    assert time.process_time() - start < 5
    assert str(error.value).isprintable() and len(str(error.value)) < 3000
    assert sorted(path.parent.rglob("*")) == paths_before


class Evil:
    """An object that creates a folder if it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("evidence",)


@pytest.mark.parametrize("create_path", [os.mkfifo, os.mkdir])
def test_only_regular_files_are_opened(tmp_path, create_path):
    """A FIFO without a writer is refused at once."""
    create_path(tmp_path / "x.safetensors")
    with pytest.raises(OSError, match=r"regular file|[Dd]irectory"):
        open_regular(tmp_path / "x.safetensors")
    with pytest.raises(WeightsError, match=r"regular file|is a folder without a checkpoint"):
        open_checkpoint(tmp_path / "x.safetensors")


@pytest.mark.parametrize("replacement", ["x.safetensors", "new"])
@pytest.mark.parametrize("use", ["read", "sha256"])
def test_a_file_that_changes_is_refused(tmp_path, replacement, use):
    """The file is overwritten or replaced. Otherwise the digest could be of other bytes than the
    weights."""
    path = tmp_path / "x.safetensors"
    save_file({"w": np.ones(3, np.float32)}, path)
    os.utime(path, ns=(1, 1))  # two writes may have the same time of the clock
    checkpoint = open_checkpoint(path)
    np.testing.assert_array_equal(checkpoint.tensors["w"].read(), 1)
    save_file({"w": np.zeros(3, np.float32)}, tmp_path / replacement)
    (tmp_path / replacement).replace(path)
    with pytest.raises(NotACheckpoint, match="changed while it was read"):
        {"read": checkpoint.tensors["w"].read, "sha256": checkpoint.sha256}[use]()


# ------------------------------------------------------------------------------------- safetensors


def safetensors_file(path, header, body=b"", length=None):
    """Write a header (an object or bytes) and a body. `length` is a false length of the header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text) if length is None else length) + text + body)
    return path


def entry(**changes):
    """Return a header with one tensor of two numbers, with these changes."""
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}


def list_header(item):
    """Return a header with a list of many items. An empty object takes 64 bytes of memory, but 3 of
    the file."""
    return b'{"a":[' + item * MAX_VALUES + b"0]}"


SAFETENSORS = {
    "length of everything": (entry(), 8, (1 << 64) - 1),
    "nested JSON": (b'{"a":' + b"[" * 100_000, 0, None),
    "names twice": (b'{"a":1,"a":2}', 0, None),
    "UTF-16": ('{"__metadata__":{}}'.encode("utf-16-le"), 0, None),
    "overlapping": ({**entry(), "b": entry()["a"]}, 8, None),
    "hole": (entry(data_offsets=[8, 16]), 16, None),
    "too many bytes": (entry(), 9, None),
    "too few bytes": (entry(), 7, None),
    "shape and size differ": (entry(shape=[3]), 8, None),
    "negative": (entry(shape=[-2]), 8, None),
    "true for a number": (entry(shape=[True, 2]), 8, None),
    "enormous": (entry(shape=[1 << 47, 1 << 47]), 8, None),
    "unknown type": (entry(dtype="F3"), 8, None),
    "backwards": (entry(data_offsets=[8, 0]), 8, None),
    "no entry": ({"a": 3}, 0, None),
    "many dimensions": (entry(shape=[(1 << 48) - 1] * (MAX_DIMENSIONS + 1)), 8, None),
    "very many dimensions": (entry(shape=[(1 << 48) - 1] * 300_000), 8, None),
    "many tensors": ({str(i): EMPTY for i in range(MAX_TENSORS + 1)}, 0, None),
    "many objects": (list_header(b'{"a":0},'), 0, None),
    "many lists": (list_header(b"[],"), 0, None),
    "many numbers": (list_header(b"0,"), 0, None),
}


@pytest.mark.parametrize("name", SAFETENSORS)
def test_safetensors(name, tmp_path):
    header, body, length = SAFETENSORS[name]
    path = safetensors_file(tmp_path / "w", header, bytes(body), length)
    small_values = name in ("many objects", "many lists", "many numbers")
    assert_refused(path, "in values" if small_values else "not a valid safetensors file")


def test_limits_of_dimensions_and_records(tmp_path):
    """The largest numbers of dimensions and of records are read, and one more record is refused."""
    header = entry(shape=[1] * MAX_DIMENSIONS, data_offsets=[0, 4])
    path = safetensors_file(tmp_path / "w", header, bytes(4))
    assert open_checkpoint(path).tensors["a"].shape == (1,) * MAX_DIMENSIONS
    path, record = tmp_path / "w.eqx", npy.array_header((2,), "<f4") + bytes(8)
    path.write_bytes(record * MAX_TENSORS)
    assert len(open_checkpoint(path).tensors) == MAX_TENSORS
    path.write_bytes(record * (MAX_TENSORS + 1))
    assert_refused(path, f"more than {MAX_TENSORS} records")


def write_index(folder, names):
    """Write an index of files with these names. Return its path."""
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"weight_map": {str(i): name for i, name in enumerate(names)}}))
    return path


def test_an_index_names_files_of_its_folder_only(tmp_path):
    for name in ("../w.safetensors", "/etc/w.safetensors", "a/b.safetensors", "w"):
        write_index(tmp_path, [name])
        assert_refused(tmp_path, "plain file names")
    assert_refused(write_index(tmp_path, ["model-1.safetensors"]), "missing in its folder")


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (dict.fromkeys(map(str, range(MAX_TENSORS // 2)), EMPTY), "its files claims"),
        ({"__metadata__": {"": " " * (4_000_000 - 40)}}, "its files' tables"),
    ],
    ids=["tensors", "bytes of headers"],
)
def test_limits_of_all_files_of_an_index(header, message, tmp_path):
    """Each file alone is valid."""
    names = [f"{i}.safetensors" for i in range(5)]
    for name in names:
        open_checkpoint(safetensors_file(tmp_path / name, header))
    assert_refused(write_index(tmp_path, names), message)


# ------------------------------------------------------------------------------- PyTorch archives


def pth_file(path, program, method=zipfile.ZIP_STORED, numbers=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("w/data.pkl", program, method)
        archive.writestr("w/data/0", bytes(4), numbers)
    return path


def many_dimensions():
    """Return a pickle of a tensor with 60,000 dimensions."""
    sizes = b"(" + b"K\x01" * 60_000 + b"t"
    return pickle_one_tensor(shape=sizes, strides=sizes)


def keys_with_one_hash():
    """Return a pickle of a dictionary whose integer keys have the same hash.

    Python hashes an integer modulo 2**61 - 1, so that each key collides with all before it.
    """
    keys = (b"\x8a\x0a" + (k * ((1 << 61) - 1)).to_bytes(10, "little") for k in range(1, 200_000))
    return b"\x80\x02}(" + b"N".join(keys) + b"Nu."


PICKLES = {
    **{f"evil {n}": b"\x80\x04" + program + b"." for n, program in enumerate(FORBIDDEN_PROGRAMS)},
    "a state": b"\x80\x02X\x01\x00\x00\x00a}b.",
    "a name that clears the screen": b"\x80\x02cos\n\x1b[2J\n)R.",
    "nothing": b"",
    "an end": b".",
    "no end": b"\x80\x02}q\x00",
    "a place that is empty": b"\x80\x02h\x05.",
    "a text that is too long": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "a number that is too long": b"\x80\x02\x8a\xff.",
    "a tensor of nothing": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
    "a tensor without a storage": pickle_one_tensor(shape=b")", strides=b")", storage=b"N"),
    "more strides than sizes": pickle_one_tensor(strides=b"K\x01K\x01\x86"),
    "many dimensions": many_dimensions(),
    "keys with one hash": keys_with_one_hash(),
}
MESSAGES = {"many dimensions": "60000 dimensions", "evil 0": "could run code"}


@pytest.mark.parametrize("name", PICKLES)
def test_pickles(name, tmp_path):
    path = pth_file(tmp_path / "w", PICKLES[name])
    assert_refused(path, MESSAGES.get(name), (UnsafeCheckpoint, NotACheckpoint))


def test_code_is_not_run(tmp_path, monkeypatch):
    """The code is in a pickle, in a pickle of an archive, and in an array of objects."""
    monkeypatch.chdir(tmp_path)
    for content in (b"", b"<html>not found</html>", pickle.dumps(Evil())):
        (tmp_path / "a").write_bytes(content)
        assert_refused(tmp_path / "a", r"not a supported checkpoint|is a web page", NotACheckpoint)
    torch.save({"norm.weight": Evil()}, tmp_path / "b")
    assert_refused(tmp_path / "b", "could run code")
    evil = np.array([Evil()], object)
    equimo_archive(tmp_path / "c", [(member("weights.eqx"), numpy_file(evil))])
    assert_refused(tmp_path / "c", "an array of type|does not describe")
    np.savez(tmp_path / "d.npz", a=evil)
    assert_refused(tmp_path / "d.npz", "does not describe an array of numbers")


def test_compressed_members(tmp_path):
    """Compressed members are refused: PyTorch does not compress, and a zip bomb has to."""
    torch.save({"a": torch.zeros(1)}, tmp_path / "torch")
    with zipfile.ZipFile(tmp_path / "torch") as archive:
        program = archive.read("torch/data.pkl")
    deflated = zipfile.ZIP_DEFLATED
    assert_refused(pth_file(tmp_path / "a", program, numbers=deflated), "data/0 is compressed")
    assert_refused(pth_file(tmp_path / "b", program, deflated), "data.pkl is compressed")
    assert_refused(pth_file(tmp_path / "c", bytes(300_000_000), deflated), "the limit is")


# ---------------------------------------------------------------------------------- numpy archives


def numpy_file(array):
    """Return the bytes of a `.npy` file."""
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-4], "not the size of its array|length that its header claims"),
        (lambda data: data + b"more", "not the size of its array|length that its header claims"),
        (
            lambda data: data.replace(b"(8,)", b"(9,)"),
            "not the size of its array|length that its header claims",
        ),
        (lambda data: b"nothing of the kind, but long", "does not begin with the magic bytes"),
        (lambda data: data.replace(b"False", b"Falsy"), "does not describe"),
    ],
)
def test_members_with_wrong_sizes_and_headers(change, message, method, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        archive.writestr("a.npy", change(numpy_file(np.ones(8, np.float32))))
    assert_refused(tmp_path / "w.npz", message, NotACheckpoint)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize(
    ("names", "method", "message"),
    [
        (["a", "a"], zipfile.ZIP_STORED, "two members have the same name"),
        # An LZMA stream may request a dictionary of 4 GB.
        (["a"], zipfile.ZIP_LZMA, "neither stored nor deflated"),
        (["a"], zipfile.ZIP_BZIP2, "neither stored nor deflated"),
        (range(MAX_TENSORS + 100), zipfile.ZIP_STORED, "in members|in bytes"),
        pytest.param(
            *(range(100_000), zipfile.ZIP_STORED, "in bytes|in members"), marks=pytest.mark.full
        ),
    ],
    ids=["twice", "lzma", "bzip2", "many", "very many"],
)
def test_wrong_sets_of_members(names, method, message, tmp_path):
    content = numpy_file(np.ones(1, np.float32)) if len(names) < 3 else b""
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        for name in names:
            archive.writestr(f"{name}.npy", content)
    assert_refused(tmp_path / "w.npz", message, NotACheckpoint)


# ----------------------------------------------------------------------- Equimo archives


def member(name, kind=tarfile.REGTYPE, target=""):
    """Return the tar header of a member. `target` is the path of a link."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def equimo_archive(path, members, metadata=b"{}", end=None):
    """Write a compressed archive of metadata and of members with their content. `end` is the number
    of bytes that are kept."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in [(member("metadata.json"), metadata), *members]:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(lz4.frame.compress(buffer.getvalue()[:end]))


MEMBERS = (
    member("../evil"),
    member("weights.eqx", tarfile.SYMTYPE, "/etc/passwd"),
    member("weights.eqx", tarfile.LNKTYPE, "../evil"),
    member("metadata.json", tarfile.DIRTYPE),
    member("x" * 300),
)
RECORDS = {
    "longer than the file": b"\x93NUMPY\x01\x00\xff\xff",
    "an enormous array": npy.array_header((1 << 40, 1 << 7), "<f4"),
    "beyond all sizes": npy.array_header((1 << 60,), "<f4"),
    "an expression": b"\x93NUMPY\x01\x00\x76\x00"
    + b"__import__('os').mkdir('x')".ljust(117)
    + b"\n",
    "deeply nested": b"\x93NUMPY\x02\x00\x00\x30\x00\x00" + b"(" * 0x3000,
    "negative": npy.array_header((1, 2), "<f4").replace(b"(1, 2)", b"(-1,2)"),
    "a structure": b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': [('a', '<f4')]}".ljust(117) + b"\n",
    "version 9": b"\x93NUMPY\x09\x00\x76\x00",
}
SUSPICIOUS = {f"{info.name[:20]} {info.type}": (info, b"") for info in MEMBERS}
SUSPICIOUS |= {name: (member("weights.eqx"), record) for name, record in RECORDS.items()}


@pytest.mark.parametrize("name", SUSPICIOUS)
def test_wrong_members_and_records(name, tmp_path):
    equimo_archive(tmp_path / "w", [SUSPICIOUS[name]])
    assert_refused(tmp_path / "w", "not a valid Equimo checkpoint")


@pytest.mark.parametrize("position", [0.1, 0.9])
def test_a_flipped_byte_in_an_archive(position, tmp_path):
    """Archives of Equimo 2 have a digest, those of Equimo 1 at most a checksum of the frame."""
    archive = lz4.frame.decompress((GOLDEN / "equimo_v2_dinov2_nano.tar.lz4").read_bytes())
    damaged = bytearray(archive)
    damaged[3000 + int((len(archive) - 20000) * position)] ^= 1
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(bytes(damaged)))
    assert_refused(tmp_path / "w.tar.lz4", kind=(WrongDigest, NotACheckpoint))


def extended_header(size):
    """Return an extended (PAX) header of a size."""
    info = tarfile.TarInfo("pax")
    info.type, info.size = tarfile.XHDTYPE, size
    return info.tobuf(tarfile.USTAR_FORMAT)


def archive_claiming(size):
    """Return an archive whose first header claims a size.

    The tar format has negative sizes in base 256, and Python's library accepts them.
    """
    header = bytearray(extended_header(0))
    header[124:136] = (b"\xff" if size < 0 else b"\x80") + size.to_bytes(11, "big", signed=True)
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    return bytes(header) + lz4.frame.decompress(
        (GOLDEN / "equimo_v1_dinov3_nano.tar.lz4").read_bytes()
    )


# A search for a number before a word takes long in a text of digits.
DIGITS = (
    extended_header(MAX_METADATA_BYTES)
    + b"1" * MAX_METADATA_BYTES
    + member("metadata.json").tobuf()
)


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (DIGITS, "is missing|is not JSON"),
        *(
            (archive_claiming(size), "an extended header claims a size of")
            for size in (-1024, -1, 1 << 40)
        ),
    ],
    ids=["digits", "-1024", "-1", "2**40"],
)
def test_extended_headers(archive, message, tmp_path):
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(archive))
    assert_refused(tmp_path / "w.tar.lz4", message)


# ------------------------------------------------------------------------ excessive time or memory


# The process may use 100 MB more than it has before it reads.
LIMITED = """
import os, resource, sys, time
from pathlib import Path
from weights.containers import open_checkpoint
from weights.errors import WeightsError
size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
resource.setrlimit(resource.RLIMIT_AS, (size + 100_000_000,) * 2)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
seconds = int(time.process_time()) + 3
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
began = time.process_time()
try:
    open_checkpoint(Path(sys.argv[1]))
except WeightsError as error:
    print(time.process_time() - began)
"""

PAIRS = b"".join(b"M" + struct.pack("<H", i) + b"N\x86" for i in range(40_000))
LONG = text("a" * 3_000_000)

BOMBS = {
    "dictionaries of one list": b"\x80\x02ccollections\nOrderedDict\nq\x00]("
    + (PAIRS + b"eq\x01(" + b"h\x00h\x01\x85R" * 20_000 + b"l."),
    "names": b"\x80\x02" + text("torch") + b"q\x00" + LONG + b"q\x01" + b"h\x00h\x01\x93" * 1000,
    "values": b"\x80\x02" + b"}" * 4_000_000 + b".",
    # Hashing it would overflow the interpreter's stack.
    "a nested key": b"\x80\x02})" + b"\x85" * 200_000 + b"Ns.",
    "a doubled key": b"\x80\x02})" + b"q\x00h\x00\x86" * 40 + b"Ns.",
    "zeros": b"",
}


def write_zeros(path, size, *earlier_members):
    """Write an archive whose weights are `size` bytes of zeros, after these members."""
    info = member("weights.eqx")
    info.size = size
    with lz4.frame.open(path, "wb") as file:
        file.write(b"".join(header.tobuf() for header in (*earlier_members, info)))
        file.write(npy.array_header((size // 4 - 32,), "<f4"))
        for _ in range(size >> 24):
            file.write(bytes(1 << 24))
    return path


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_take_no_memory(name, tmp_path, monkeypatch):
    """The files are pickles, and an archive of 2 GB of zeros in a frame of 8 MB."""
    monkeypatch.delenv("COVERAGE_PROCESS_START", raising=False)  # measuring coverage takes time
    if name == "zeros":
        path = write_zeros(tmp_path / "a.tar.lz4", frames.FREE_CONTENT * frames.RATIO)
        assert_refused(path, "its content claims a size of")
        path = write_zeros(tmp_path / "w.tar.lz4", 2 << 30, member("metadata.json"))
        assert path.stat().st_size < 10 << 20
    else:
        path = pth_file(tmp_path / "w", BOMBS[name])
    command = [sys.executable, "-c", LIMITED, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=True, cwd=os.getcwd())
    assert float(process.stdout) < 1
