"""Checkpoint files: wrappers, prefixes, and everything that may be wrong with one."""

import json
import pickle

import numpy as np
import pytest

from tests.formats import NANO
from tests.loading import load
from tests.seeded import state_of
from tests.synthetic import save_pth
from weights import open_checkpoint
from weights.errors import (
    BadValues,
    NotACheckpoint,
    WeightsNotFound,
)
from weights.namings.meta_names import DINOV3_VIT
from weights.writers.safetensors_writer import write_arrays
from zoo.checkpoints.load import model_shapes

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
        write_arrays(path, {"array": array}, {})
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


@pytest.mark.parametrize("content", [torch.zeros(2), [torch.zeros(2)], {3: torch.zeros(2)}, 5])
def test_no_table_of_named_tensors(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(NotACheckpoint, match="no table of named tensors"):
        read(tmp_path / "w.pth")


@pytest.mark.parametrize(
    "content", [b"", b"\x00" * 100, b"<html>not found</html>", pickle.dumps({"a": 1})]
)
def test_files_of_other_kinds(content, tmp_path):
    (tmp_path / "w.pth").write_bytes(content)
    with pytest.raises(NotACheckpoint, match="not a checkpoint that is read"):
        read(tmp_path / "w.pth")


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_values_that_are_no_numbers_are_named(value, tmp_path):
    state = state_of(NANO, DINOV3_VIT, 1)
    state["blocks.1.mlp.fc1.bias"][3] = value
    save_pth(tmp_path / "w.pth", state)
    arrays = load(tmp_path / "w.pth", model_shapes(NANO)).arrays
    assert all(arrays[path].dtype == np.float32 for path in arrays)
    assert list(arrays.nonfinite) == ["blocks.1.mlp.fc1.bias"]


def test_masks_of_nan(vits16, tmp_path):
    state = dict(vits16.state)
    for i in (2, 5):
        key = f"blocks.{i}.attn.qkv.bias_mask"
        state[key] = np.full_like(state[key], np.nan)
    save_pth(tmp_path / "w.pth", state)
    with pytest.raises(BadValues, match=r"2 masks hold NaN \(blocks\.2\.attn\.qkv\.bias_mask"):
        load(tmp_path / "w.pth", vits16.shapes)


RNG = np.random.default_rng(0)
ARRAYS = {
    "blocks.0.weight": RNG.standard_normal((3, 5)).astype(np.float32),
    "half": RNG.standard_normal(7).astype(np.float16),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 4), np.float32),
    "turned": np.asfortranarray(RNG.standard_normal((2, 3, 4)).astype(np.float32)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_values_of_npz_are_numpys(save, tmp_path):
    save(tmp_path / "w.npz", **ARRAYS)
    checkpoint = open_checkpoint(tmp_path / "w.npz")
    assert checkpoint.container == "numpy archive"
    assert list(checkpoint.tensors) == list(ARRAYS)
    for key, array in ARRAYS.items():
        tensor = checkpoint.tensors[key]
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype.name)
        np.testing.assert_array_equal(tensor.read(), array)
        assert tensor.read().dtype == np.float32


def test_other_types_of_npz_are_told_but_not_read(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.arange(3), b=np.zeros(2))
    tensors = open_checkpoint(tmp_path / "w.npz").tensors
    assert [tensor.dtype for tensor in tensors.values()] == ["int64", "float64"]
    with pytest.raises(TypeError, match="not a dense tensor"):
        tensors["a"].read()
