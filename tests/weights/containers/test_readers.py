"""Checkpoint files: wrappers, prefixes, and everything that may be wrong with one."""

import json
import pickle

import numpy as np
import pytest
import torch

from tests.formats import NANO
from tests.loading import load
from tests.seeded import state_of
from tests.synthetic import save_pth
from weights import open_checkpoint
from weights.errors import BadValues, NotACheckpoint, WeightsNotFound
from weights.namings.meta_names import DINOV3_VIT
from weights.tensors import LazyArrays, LazyTensor
from weights.writers.safetensors_writer import write_arrays
from zoo.checkpoints.load import model_shapes


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
    if path.suffix == ".safetensors":
        write_arrays(path, {"array": array}, {})
    elif path.suffix == ".pth":
        torch.save({"array": torch.tensor(values)}, path)
    else:
        with path.open("wb") as file:
            np.save(file, array) if path.suffix == ".eqx" else np.savez(file, array=array)


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


def test_types(tmp_path):
    """Floats become float32; what is no tensor of floats has a type that says so."""
    content = {"epoch": 3, "sparse": torch.eye(2).to_sparse(), "int": torch.arange(2)}
    for dtype in (torch.float16, torch.bfloat16):
        content[str(dtype)] = torch.tensor([0.5, -2.0], dtype=dtype)
    torch.save(content, tmp_path / "w.pth")
    tensors = read(tmp_path / "w.pth")
    types = {key: tensor.dtype for key, tensor in tensors.items() if "torch" not in key}
    assert types == {"epoch": "int", "sparse": "not a dense tensor", "int": "int64"}
    for dtype in ("torch.float16", "torch.bfloat16"):
        assert tensors[dtype].read().dtype == np.float32
        np.testing.assert_array_equal(tensors[dtype].read(), [0.5, -2])
    np.savez(tmp_path / "w.npz", a=np.arange(3), b=np.zeros(2))
    tensors = read(tmp_path / "w.npz")
    assert [tensor.dtype for tensor in tensors.values()] == ["int64", "float64"]
    with pytest.raises(TypeError, match="not a dense tensor"):
        tensors["a"].read()


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


def test_sums_that_overflow_are_not_taken_for_infinite_values():
    large = np.full(100, 3e38, np.float32)
    arrays = LazyArrays({"a": LazyTensor((100,), "float32", lambda: large)})
    assert arrays["a"] is large and not arrays.nonfinite


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
