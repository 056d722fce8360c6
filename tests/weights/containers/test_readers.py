"""Checkpoint files: wrappers, prefixes, and everything that may be wrong with one."""

import json
import os
import pickle
import zipfile

import numpy as np
import pytest

from tests.loading import load
from tests.synthetic import save_pth
from weights import open_checkpoint
from weights.errors import (
    BadValues,
    NotACheckpoint,
    UnsafeCheckpoint,
    WeightsError,
    WeightsNotFound,
)
from weights.writers.safetensors import write_arrays

torch = pytest.importorskip("torch")


def read(path):
    return open_checkpoint(path).tensors


@pytest.mark.parametrize("wrapper", [(), ("teacher",), ("model",), ("state_dict",)])
@pytest.mark.parametrize("prefix", ["", "backbone.", "module.", "module.backbone."])
def test_wrappers_and_prefixes(wrapper, prefix, tmp_path):
    content = {prefix + "norm.weight": torch.arange(3.0)}
    if "backbone." in prefix:
        content[prefix.replace("backbone.", "dino_head.") + "weight"] = torch.zeros(1)
    for name in wrapper:
        content = {name: content, "epoch": 3}
    torch.save(content, tmp_path / "w.pth")
    file = read(tmp_path / "w.pth")
    assert list(file) == ["norm.weight"]
    np.testing.assert_array_equal(file["norm.weight"].read(), [0, 1, 2])


def _write(path, values):
    """A checkpoint of one array, in the format that the name asks for."""
    array = np.array(values, np.float32)
    if path.suffix == ".eqx":
        with path.open("wb") as file:
            np.save(file, array)
    elif path.suffix == ".npz":
        np.savez(path, array=array)
    elif path.suffix == ".safetensors":
        write_arrays(path, {"array": array})
    else:
        torch.save({"array": torch.tensor(values)}, path)


@pytest.mark.parametrize("suffix", [".eqx", ".npz", ".safetensors", ".pth"])
def test_a_file_that_is_named_is_the_one_that_is_read(suffix, tmp_path):
    """Whatever lies beside it, that of a checkpoint in several files too."""
    _write(tmp_path / f"finetuned{suffix}", [1.0, 2.0])
    for name in ("weights.eqx", "arrays.npz", "model.safetensors", "model.pth"):
        _write(tmp_path / name, [8.0, 9.0])
    (tmp_path / "metadata.json").write_text("{}")
    index = {"metadata": {}, "weight_map": {"array": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tensor,) = read(tmp_path / f"finetuned{suffix}").values()
    np.testing.assert_array_equal(tensor.read(), [1, 2])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_other_floats_become_float32(dtype, tmp_path):
    torch.save({"a": torch.tensor([0.5, -2.0], dtype=dtype)}, tmp_path / "w.pth")
    values = read(tmp_path / "w.pth")["a"].read()
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, [0.5, -2])


def test_what_is_no_tensor_of_floats_has_a_type_that_says_so(tmp_path):
    content = {"epoch": 3, "sparse": torch.eye(2).to_sparse(), "int": torch.arange(2)}
    torch.save(content, tmp_path / "w.pth")
    types = {key: tensor.dtype for key, tensor in read(tmp_path / "w.pth").items()}
    assert types == {"epoch": "int", "sparse": "not a dense tensor", "int": "int64"}


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(WeightsNotFound, match="does not exist"):
        read(tmp_path / "nothing.pth")
    with pytest.raises(WeightsNotFound, match="is a folder without a checkpoint"):
        read(tmp_path)


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)


def test_files_of_other_kinds(tmp_path):
    path = tmp_path / "w.pth"
    for content in (b"", b"\x00" * 100, b"<html>not found</html>", pickle.dumps({"a": 1})):
        path.write_bytes(content)
        with pytest.raises(NotACheckpoint, match="not a checkpoint that is read"):
            read(path)
    write_zip(path, {"readme.txt": "hello"})
    with pytest.raises(NotACheckpoint, match="is no sound PyTorch checkpoint"):
        read(path)


def test_truncated_file(tiny7b, tmp_path):
    path = tmp_path / "w.pth"
    whole = tiny7b.path.read_bytes()
    for size in (10, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(NotACheckpoint):
            read(path)


@pytest.mark.parametrize("content", [torch.zeros(2), [torch.zeros(2)], {3: torch.zeros(2)}, 5])
def test_no_table_of_named_tensors(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(NotACheckpoint, match="no table of named tensors"):
        read(tmp_path / "w.pth")


class Hostile:
    """Would make a folder when unpickled."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_hostile_pickles_are_refused_and_not_run(tmp_path):
    path, evidence = tmp_path / "w.pth", tmp_path / "evidence"
    torch.save({"norm.weight": Hostile(evidence)}, path)
    with pytest.raises(UnsafeCheckpoint, match="could run code"):
        read(path)
    assert not evidence.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"",
        b".",
        b"\x80\x02.",
        b"\x80\x02}q\x00",
        b"\x80\x02cbuiltins\neval\nX\x03\x00\x00\x001+1\x85R.",
        b"\x80\x02h\x05.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02\x8a\xff.",
        b"\x80\x02(((((.",
        b"\xff" * 50,
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.",
    ],
)
def test_malformed_pickles_are_errors_of_ours(program, tmp_path):
    path = tmp_path / "w.pth"
    write_zip(
        path, {"w/data.pkl": program, "w/version": "3\n", "w/byteorder": "little", "w/data/0": b""}
    )
    with pytest.raises(WeightsError):
        read(path)


def test_masks_of_nan(vits16, tmp_path):
    state = dict(vits16.state)
    for i in (2, 5):
        key = f"blocks.{i}.attn.qkv.bias_mask"
        state[key] = np.full_like(state[key], np.nan)
    save_pth(tmp_path / "w.pth", state)
    with pytest.raises(BadValues, match=r"2 masks hold NaN \(blocks\.2\.attn\.qkv\.bias_mask"):
        load(tmp_path / "w.pth", vits16.shapes)
