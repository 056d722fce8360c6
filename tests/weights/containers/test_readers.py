"""Readers of checkpoint containers, compared with the libraries that wrote the files."""

import io
import itertools
import json

import equinox as eqx
import jax.numpy as jnp
import lz4.frame
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from tests.formats import NANO
from tests.loading import load
from tests.seeded import state_of
from tests.synthetic import save_pth
from weights import open_checkpoint
from weights.containers.lz4 import Content
from weights.errors import BadValues, DamagedFile, NotACheckpoint
from weights.namings.meta_names import DINOV3_VIT
from weights.tensors import LazyArrays, LazyTensor
from zoo.checkpoints.load import model_shapes


def read_tensors(path):
    """Return the tensors of a checkpoint by name."""
    return open_checkpoint(path).tensors


WRITERS = {
    "eqx": lambda path, array: eqx.tree_serialise_leaves(path, jnp.asarray(array)),
    "npz": lambda path, array: np.savez(path, array=array),
    "safetensors": lambda path, array: save_file({"array": torch.tensor(array)}, path),
    "pth": lambda path, array: torch.save({"array": torch.tensor(array)}, path),
}
"""Functions of other libraries that write an array, by the suffix of their format."""


@pytest.mark.parametrize("suffix", WRITERS)
def test_the_given_file_is_read(suffix, tmp_path):
    """The file is read, not other checkpoints or an index in its folder."""
    WRITERS[suffix](tmp_path / f"finetuned.{suffix}", np.float32([1, 2]))
    for name in ("weights.eqx", "arrays.npz", "model.safetensors", "model.pth"):
        WRITERS[name.partition(".")[2]](tmp_path / name, np.float32([8, 9]))
    (tmp_path / "metadata.json").write_text("{}")
    index = {"metadata": {}, "weight_map": {"array": "model.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tensor,) = read_tensors(tmp_path / f"finetuned.{suffix}").values()
    np.testing.assert_array_equal(tensor.read(), [1, 2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_becomes_float32(dtype, tmp_path):
    tensor = torch.tensor([0.5, -2.0], dtype=getattr(torch, dtype))
    torch.save({"a": tensor}, tmp_path / "w.pth")
    save_file({"a": tensor}, tmp_path / "w.safetensors")
    eqx.tree_serialise_leaves(tmp_path / "w.eqx", jnp.asarray([0.5, -2], dtype))
    for suffix in ("pth", "safetensors", "eqx"):
        (tensor_read,) = read_tensors(tmp_path / f"w.{suffix}").values()
        assert tensor_read.read().dtype == np.float32
        np.testing.assert_array_equal(tensor_read.read(), [0.5, -2])


def test_dtypes_of_other_values(tmp_path):
    """Tensors that are not dense floats have a dtype that says so. Other values are left out."""
    content = {"epoch": 3, "sparse": torch.eye(2).to_sparse(), "int": torch.arange(2)}
    torch.save(content, tmp_path / "w.pth")
    types = {key: tensor.dtype for key, tensor in read_tensors(tmp_path / "w.pth").items()}
    assert types == {"sparse": "not a dense tensor", "int": "int64"}
    np.savez(tmp_path / "w.npz", a=np.arange(3), b=np.zeros(2))
    tensors = read_tensors(tmp_path / "w.npz")
    assert [tensor.dtype for tensor in tensors.values()] == ["int64", "float64"]
    with pytest.raises(TypeError, match="not a dense tensor"):
        tensors["a"].read()


@pytest.mark.parametrize("content", [torch.zeros(2), [torch.zeros(2)], {3: torch.zeros(2)}, 5])
def test_files_without_named_tensors(content, tmp_path):
    torch.save(content, tmp_path / "w.pth")
    with pytest.raises(NotACheckpoint, match="not a table of named tensors"):
        read_tensors(tmp_path / "w.pth")


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_modules_of_torchscript(tmp_path):
    """Parameters and buffers have the names of the state dict. No code is read."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 5), torch.nn.BatchNorm1d(5)).half()
    torch.jit.save(torch.jit.script(module), tmp_path / "w.pt")
    state, tensors = module.state_dict(), open_checkpoint(tmp_path / "w.pt").tensors
    assert {key: tensor.shape for key, tensor in tensors.items()} == {
        key: tuple(value.shape) for key, value in state.items()
    }
    np.testing.assert_array_equal(tensors["0.weight"].read(), state["0.weight"])


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_tensors_with_nan_or_infinity_are_named(value, tmp_path):
    state = state_of(NANO, DINOV3_VIT, 1)
    state["blocks.1.mlp.fc1.bias"][3] = value
    save_pth(tmp_path / "w.pth", state)
    arrays = load(tmp_path / "w.pth", model_shapes(NANO)).arrays
    assert all(arrays[path].dtype == np.float32 for path in arrays)
    assert list(arrays.nonfinite) == ["blocks.1.mlp.fc1.bias"]


def test_overflow_of_a_sum_is_no_infinite_value():
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
def test_values_of_npz_are_those_of_numpy(save, tmp_path):
    save(tmp_path / "w.npz", **ARRAYS)
    checkpoint = open_checkpoint(tmp_path / "w.npz")
    assert checkpoint.container == "numpy archive"
    assert list(checkpoint.tensors) == list(ARRAYS)
    for key, array in ARRAYS.items():
        tensor = checkpoint.tensors[key]
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype.name)
        np.testing.assert_array_equal(tensor.read(), array)
        assert tensor.read().dtype == np.float32


def test_values_of_pth_are_those_of_torch(tmp_path):
    torch.save({key: torch.tensor(array) for key, array in ARRAYS.items()}, tmp_path / "w.pth")
    tensors = read_tensors(tmp_path / "w.pth")
    assert list(tensors) == list(ARRAYS)
    for key, array in ARRAYS.items():
        assert tensors[key].shape == array.shape
        np.testing.assert_array_equal(tensors[key].read(), array)


SWITCHES = ("block_linked", "content_checksum", "block_checksum", "store_size")


@pytest.mark.each()
@pytest.mark.parametrize("block_size", [0, 4, 5, 6, 7])
def test_ranges_of_lz4_frames(block_size):
    """The data are noise, zeros and repetitions. Truncated frames are refused."""
    rng = np.random.default_rng(block_size)
    for values in itertools.product([False, True], repeat=4):
        size = int(rng.integers(0, 3_000_000))
        noise = rng.integers(0, 256, size // 3, dtype=np.uint8).tobytes()
        data = noise + bytes(size) + b"abc" * 500
        frame = lz4.frame.compress(
            data, block_size=block_size, **dict(zip(SWITCHES, values, strict=True))
        )
        content = Content(io.BytesIO(frame))
        assert content.size == len(data)
        for content.start in (0, int(rng.integers(1, len(data)))):
            target = bytearray(len(data) - content.start)
            content.read_into(0, memoryview(target))
            assert target == data[content.start :]
        for end in (3, 10, len(frame) // 2, len(frame) - 1):
            with pytest.raises(DamagedFile):
                Content(io.BytesIO(frame[:end]))


def test_flipped_bytes_fail_the_checksum():
    content = np.random.default_rng(0).integers(0, 256, 300_000, dtype=np.uint8).tobytes()
    frame = bytearray(lz4.frame.compress(content, content_checksum=True))
    for index in range(100, len(frame), 30_000):
        frame[index] ^= 1
        with pytest.raises(DamagedFile):
            Content(io.BytesIO(frame))
        frame[index] ^= 1
