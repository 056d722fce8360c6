"""numpy archives: every value as numpy reads it, nothing executed, nothing beyond its header."""

import zipfile

import numpy as np
import pytest

from weights import open_checkpoint
from weights.errors import NotACheckpoint

RNG = np.random.default_rng(0)
ARRAYS = {
    "blocks.0.weight": RNG.standard_normal((3, 5)).astype(np.float32),
    "half": RNG.standard_normal(7).astype(np.float16),
    "scalar": np.float32(2.5),
    "empty": np.zeros((0, 4), np.float32),
    "turned": np.asfortranarray(RNG.standard_normal((2, 3, 4)).astype(np.float32)),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_values_are_numpys(save, tmp_path):
    save(tmp_path / "w.npz", **ARRAYS)
    checkpoint = open_checkpoint(tmp_path / "w.npz")
    assert checkpoint.container == "numpy archive"
    assert list(checkpoint.tensors) == list(ARRAYS)
    for key, array in ARRAYS.items():
        tensor = checkpoint.tensors[key]
        assert (tensor.shape, tensor.dtype) == (array.shape, array.dtype.name)
        np.testing.assert_array_equal(tensor.read(), array)
        assert tensor.read().dtype == np.float32


def test_other_types_are_told_but_not_read(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.arange(3), b=np.zeros(2))
    tensors = open_checkpoint(tmp_path / "w.npz").tensors
    assert [tensor.dtype for tensor in tensors.values()] == ["int64", "float64"]
    with pytest.raises(TypeError, match="not a dense tensor"):
        tensors["a"].read()


def refused(path, message):
    with pytest.raises(NotACheckpoint, match=message):
        for tensor in open_checkpoint(path).tensors.values():
            tensor.read()


def test_objects_are_refused(tmp_path):
    np.savez(tmp_path / "w.npz", a=np.array([print], object))
    refused(tmp_path / "w.npz", "does not describe an array of numbers")


def member(array) -> bytes:
    """An `.npy` as numpy writes it."""
    import io

    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-4], "not what its header says"),
        (lambda data: data + b"more", "not what its header says"),
        (lambda data: data.replace(b"(8,)", b"(9,)"), "not what its header says"),
        (lambda data: b"nothing of the kind, but long", "does not begin as one"),
        (lambda data: data.replace(b"False", b"Falsy"), "does not describe"),
        (lambda data: b"", "does not begin as one"),
    ],
)
def test_members_that_are_not_what_they_say(change, message, method, tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w", method) as archive:
        archive.writestr("a.npy", change(member(np.ones(8, np.float32))))
    refused(tmp_path / "w.npz", message)


def test_a_name_twice(tmp_path):
    with zipfile.ZipFile(tmp_path / "w.npz", "w") as archive:
        archive.writestr("a.npy", member(np.ones(1, np.float32)))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", member(np.ones(1, np.float32)))
    refused(tmp_path / "w.npz", "a name is given twice")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damage_is_told(save, tmp_path):
    """A file cut anywhere, or with a byte changed, gives an error of ours or values of the size."""
    path = tmp_path / "w.npz"
    save(path, **ARRAYS)
    whole = path.read_bytes()
    for position in range(0, len(whole), 37):
        path.write_bytes(whole[:position])
        with pytest.raises(NotACheckpoint):
            open_checkpoint(path)
        damaged = bytearray(whole)
        damaged[position] ^= 0xFF
        path.write_bytes(damaged)
        try:
            tensors = open_checkpoint(path).tensors
            for tensor in tensors.values():
                if tensor.dtype in ("float32", "float16"):
                    assert tensor.read().shape == tensor.shape
        except NotACheckpoint:
            pass
