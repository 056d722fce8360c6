"""Files that are broken or mean harm: one sentence each, nothing run, no memory taken."""

import io
import json
import os
import pickle
import resource
import subprocess
import sys
import tarfile
import zipfile

import lz4.frame
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conftest import GOLDEN
from tests.formats import NANO, WRITERS, seeded, timm_state
from tests.loading import load
from tests.synthetic import save_pth
from weights import leaf_shapes
from weights.containers import npy
from weights.errors import NotACheckpoint, UnsafeCheckpoint, WeightsError, WrongDigest
from zoo.models.build import abstract

ARCHIVE = GOLDEN / "equimo_v1_dinov3_nano.tar.lz4"
SHAPES = leaf_shapes(abstract(NANO))

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def read_all(path):
    """Everything that an export reads."""
    weights = load(path, SHAPES)
    for name in weights.arrays:
        weights.arrays[name]
    return weights


def refused(path, message=None, kind=WeightsError):
    with pytest.raises(kind, match=message) as error:
        read_all(path)
    assert str(error.value).isprintable()
    assert len(str(error.value)) < 3000


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    """The same small checkpoint in every container."""
    folder = tmp_path_factory.mktemp("sound")
    state = seeded(NANO, 31)
    return {name: WRITERS[name](folder, NANO, state) for name in ("meta", "timm")} | {
        "equimo": ARCHIVE
    }


CONTAINERS = ("meta", "timm", "equimo")


@pytest.mark.parametrize("name", CONTAINERS)
def test_truncated(name, sound, tmp_path):
    whole = sound[name].read_bytes()
    path = tmp_path / "w"
    for part in range(20):
        path.write_bytes(whole[: len(whole) * part // 20])
        refused(path)
    path.write_bytes(whole[:-1])
    refused(path)


@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_a_flipped_byte_in_an_archive(position, tmp_path):
    """2.x archives carry a digest, those of 1.x a checksum of the compressed frame if any."""
    whole = lz4.frame.decompress((GOLDEN / "equimo_v2_dinov2_nano.tar.lz4").read_bytes())
    index = 3000 + int((len(whole) - 20000) * position)
    damaged = whole[:index] + bytes([whole[index] ^ 1]) + whole[index + 1 :]
    (tmp_path / "w.tar.lz4").write_bytes(lz4.frame.compress(damaged))
    refused(tmp_path / "w.tar.lz4", kind=(WrongDigest, NotACheckpoint))


def tar_lz4(path, members):
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    path.write_bytes(lz4.frame.compress(buffer.getvalue()))


def member(name, kind=tarfile.REGTYPE, target=""):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize(
    "bad",
    [
        member("../evil"),
        member("/tmp/evil"),
        member("weights.eqx/../../evil"),
        member("weights.eqx", tarfile.SYMTYPE, "/etc/passwd"),
        member("weights.eqx", tarfile.LNKTYPE, "../evil"),
        member("metadata.json", tarfile.DIRTYPE),
        member("weights.eqx", tarfile.CHRTYPE),
        member("x" * 300),
    ],
    ids=lambda info: f"{info.name[:20]} {info.type}",
)
def test_members_that_do_not_belong(bad, tmp_path):
    tar_lz4(tmp_path / "w", [(member("metadata.json"), b"{}"), (bad, b"")])
    before = sorted(tmp_path.rglob("*"))
    refused(tmp_path / "w", "no sound Equimo checkpoint")
    assert sorted(tmp_path.rglob("*")) == before


def record(array):
    buffer = io.BytesIO()
    np.save(buffer, array, allow_pickle=True)
    return buffer.getvalue()


class Evil:
    """Would make a folder when unpickled."""

    def __init__(self, place):
        self.place = place

    def __reduce__(self):
        return os.mkdir, (str(self.place),)


def test_object_arrays_are_not_unpickled(tmp_path):
    evil = record(np.array([Evil(tmp_path / "evidence")], object))
    tar_lz4(tmp_path / "w", [(member("metadata.json"), b"{}"), (member("weights.eqx"), evil)])
    refused(tmp_path / "w", "an array of type|does not describe")
    assert not (tmp_path / "evidence").exists()


HEADERS = {
    "longer than the file": b"\x93NUMPY\x01\x00\xff\xff",
    "an enormous array": npy.header((1 << 40, 1 << 7), "<f4"),
    "beyond all sizes": npy.header((1 << 60,), "<f4"),
    "an expression": b"\x93NUMPY\x01\x00\x76\x00"
    + b"__import__('os').mkdir('x')".ljust(117)
    + b"\n",
    "deeply nested": b"\x93NUMPY\x02\x00\x00\x30\x00\x00" + b"(" * 0x3000,
    "negative": npy.header((1, 2), "<f4").replace(b"(1, 2)", b"(-1,2)"),
    "a structure": b"\x93NUMPY\x01\x00\x76\x00" + b"{'descr': [('a', '<f4')]}".ljust(117) + b"\n",
    "version 9": b"\x93NUMPY\x09\x00\x76\x00",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_headers_of_records_that_lie(header, tmp_path):
    tar_lz4(tmp_path / "w", [(member("metadata.json"), b"{}"), (member("weights.eqx"), header)])
    refused(tmp_path / "w", "no sound Equimo checkpoint")


def safetensors_file(path, header, body=b"", length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(text) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + text + body)


def entry(**changes):
    return {"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changes}}


SAFETENSORS = {
    "length beyond the file": (entry(), b"\0" * 8, 1 << 40),
    "length of everything": (entry(), b"\0" * 8, (1 << 64) - 1),
    "no JSON": (b"{" * 50, b"", None),
    "nested JSON": (b'{"a":' + b"[" * 100_000, b"", None),
    "names twice": (b'{"a":1,"a":2}', b"", None),
    "UTF-16": ('{"__metadata__":{}}'.encode("utf-16-le"), b"", None),
    "overlapping": ({**entry(), "b": entry()["a"]}, b"\0" * 8, None),
    "hole": (entry(data_offsets=[8, 16]), b"\0" * 16, None),
    "too many bytes": (entry(), b"\0" * 9, None),
    "too few bytes": (entry(), b"\0" * 7, None),
    "shape and size differ": (entry(shape=[3]), b"\0" * 8, None),
    "negative": (entry(shape=[-2]), b"\0" * 8, None),
    "true for a number": (entry(shape=[True, 2]), b"\0" * 8, None),
    "enormous": (entry(shape=[1 << 47, 1 << 47]), b"\0" * 8, None),
    "unknown type": (entry(dtype="F3"), b"\0" * 8, None),
    "backwards": (entry(data_offsets=[8, 0]), b"\0" * 8, None),
    "no entry": ({"a": 3}, b"", None),
}


@pytest.mark.parametrize(("header", "body", "length"), SAFETENSORS.values(), ids=SAFETENSORS)
def test_safetensors_that_lie(header, body, length, tmp_path):
    safetensors_file(tmp_path / "w", header, body, length)
    refused(tmp_path / "w", "no sound safetensors file")


@pytest.mark.parametrize("name", ["../w.safetensors", "/etc/w.safetensors", "a/b.safetensors", "w"])
def test_an_index_names_files_beside_it_only(name, tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": name}}))
    refused(tmp_path, "plain file names")


def test_a_missing_shard(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model-1.safetensors"}}))
    refused(index, "missing beside it")


PICKLES = {
    "a call": b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.",
    "a call by protocol 4": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.",
    "a builtin": b"\x80\x02cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R.",
    "torch's own evaluator": b"\x80\x02ctorch.hub\nload\n)R.",
    "an instance": b"\x80\x02ios\nsystem\n(tR.",
    "a state": b"\x80\x02X\x01\x00\x00\x00a}b.",
    "an extension": b"\x80\x02\x82\x01.",
    "a name that clears the screen": b"\x80\x02cos\n\x1b[2J\n)R.",
}


@pytest.mark.parametrize("program", PICKLES.values(), ids=PICKLES)
def test_pickles_that_do_more_than_describe(program, tmp_path):
    with zipfile.ZipFile(tmp_path / "w", "w") as archive:
        archive.writestr("w/data.pkl", program)
    refused(tmp_path / "w", "could run code|is no sound", (UnsafeCheckpoint, NotACheckpoint))


def test_a_deeply_nested_key(tmp_path):
    """Hashing it would overflow the interpreter's stack."""
    program = b"\x80\x02})" + b"\x85" * 200_000 + b"Ns."
    with zipfile.ZipFile(tmp_path / "w", "w") as archive:
        archive.writestr("w/data.pkl", program)
    refused(tmp_path / "w", "cannot be read")


def test_a_pickle_alone(tmp_path):
    (tmp_path / "w").write_bytes(pickle.dumps(Evil(tmp_path / "evidence")))
    refused(tmp_path / "w", "not a checkpoint that is read")
    assert not (tmp_path / "evidence").exists()


def test_compressed_members(tmp_path, sound):
    """A zip bomb needs compression, and PyTorch uses none."""
    with zipfile.ZipFile(tmp_path / "w", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("w/data.pkl", bytes(300_000_000))
    refused(tmp_path / "w", "far too many|is compressed")
    with (
        zipfile.ZipFile(sound["meta"]) as source,
        zipfile.ZipFile(tmp_path / "w", "w", zipfile.ZIP_DEFLATED) as archive,
    ):
        for info in source.infolist():
            if info.filename.endswith("data.pkl"):
                archive.writestr(info.filename, source.read(info), zipfile.ZIP_STORED)
            else:
                archive.writestr(info.filename, source.read(info))
    refused(tmp_path / "w", "is compressed")


def test_bombs_take_no_memory(tmp_path):
    """Two gigabytes of zeros in a frame of eight megabytes."""
    path = tmp_path / "w.tar.lz4"
    size = 2 << 30
    info = member("weights.eqx")
    info.size = size
    with lz4.frame.open(path, "wb") as file:
        file.write(member("metadata.json").tobuf())
        file.write(info.tobuf())
        head = npy.header((size // 4 - 32,), "<f4")
        file.write(head)
        for _ in range(size >> 24):
            file.write(bytes(1 << 24))
    assert path.stat().st_size < 10 << 20
    code = f"""
import resource
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from pathlib import Path
from weights.containers import open_checkpoint
from weights.errors import WeightsError
try:
    open_checkpoint(Path({str(path)!r}))
except WeightsError as error:
    print("refused:", error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=os.getcwd()
    )
    assert done.stdout.startswith("refused: ")
    assert resource.getrlimit(resource.RLIMIT_AS)[0] != 1 << 30


@pytest.mark.parametrize("dtype", ["float64", "int8"])
def test_types_that_are_no_weights(dtype, tmp_path):
    from safetensors.numpy import save_file

    state = {key: np.ascontiguousarray(v) for key, v in timm_state(seeded(NANO, 1)).items()}
    state["norm.weight"] = state["norm.weight"].astype(dtype)
    save_file(state, tmp_path / "w")
    refused(tmp_path / "w", rf"norm\.weight \(is {dtype}, must be bfloat16")
    meta = seeded(NANO, 1)
    save_pth(tmp_path / "w.pth", {**meta, "norm.bias": meta["norm.bias"].astype(dtype)})
    refused(tmp_path / "w.pth", rf"norm\.bias \(is {dtype}, must be bfloat16")


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_values_that_are_no_numbers_are_named(value, tmp_path):
    state = seeded(NANO, 1)
    state["blocks.1.mlp.fc1.bias"][3] = value
    save_pth(tmp_path / "w.pth", state)
    assert list(read_all(tmp_path / "w.pth").arrays.nonfinite) == ["blocks.1.mlp.fc1.bias"]


def mutated(data, whole):
    """A few random changes: bytes, cuts, repeats, swaps of pieces."""
    content = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 3))):
        # The beginning and the end hold the tables, so they are hit as often as the rest.
        region = data.draw(st.sampled_from([0.01, 0.05, 1.0]))
        span = max(1, int(len(content) * region))
        start = data.draw(st.integers(0, span - 1))
        start = len(content) - 1 - start if data.draw(st.booleans()) else start
        kind = data.draw(st.sampled_from(["set", "cut", "drop", "repeat", "number"]))
        piece = data.draw(st.integers(1, 64))
        if kind == "set":
            content[start] = data.draw(st.integers(0, 255))
        elif kind == "cut":
            del content[start:]
        elif kind == "drop":
            del content[start : start + piece]
        elif kind == "repeat":
            content[start:start] = content[start : start + piece]
        else:
            content[start : start + 8] = data.draw(
                st.sampled_from([b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 7, b"9" * 8])
            )
        if not content:
            break
    return bytes(content)


@pytest.mark.full
@pytest.mark.parametrize("name", CONTAINERS)
@settings(
    max_examples=1000,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(HealthCheck),
)
@given(data=st.data())
def test_mutated_files_load_or_are_refused(name, sound, tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / f"mutated-{name}"
    path.write_bytes(mutated(data, sound[name].read_bytes()))
    try:
        read_all(path)
    except WeightsError as error:
        assert "\n" not in str(error)
