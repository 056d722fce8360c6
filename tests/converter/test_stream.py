"""Files written tensor by tensor are what onnx's own serialisation gives."""

import importlib
from collections import defaultdict
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter
from converter.errors import SaveError
from converter.model import streaming as laying
from converter.model.streaming import open_writer

# The package's attribute of that name is the function.
saving = importlib.import_module("converter.model.saving")


@pytest.fixture
def export():
    """A product with a parameter of each size, and one of another type."""
    rng = np.random.default_rng(0)
    params = {
        "large": rng.standard_normal((40, 24)).astype(np.float32),
        "small": rng.standard_normal((24,)).astype(np.float32),
        "half": rng.standard_normal((24,)).astype(np.float16),
        "flags": rng.random(24) > 0.5,
        "empty": np.zeros((0, 3), np.float32),
    }

    def fn(params, x):
        y = x @ params["large"] + params["small"] * params["flags"]
        return y.reshape(-1, 2) + params["half"].astype(np.float32).sum(), params["empty"] * 2

    return converter.to_onnx(fn, [(7, 40)], params=params), fn, params


def test_a_single_file(export, tmp_path):
    made, _, _ = export
    made.save(tmp_path / "a.onnx")
    files = onnx.load(tmp_path / "a.onnx"), ir.to_proto(made.model)
    got, want = (
        {t.name: onnx.numpy_helper.to_array(t) for t in file.graph.initializer} for file in files
    )
    np.testing.assert_equal(got, want)
    for file in files:
        del file.graph.initializer[:]
    assert files[0] == files[1]
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)


def test_a_sidecar(export, tmp_path, monkeypatch):
    """Where it is too large, or on request; the model keeps its tensors, and can be saved again."""
    made, fn, params = export
    path = tmp_path / "a.onnx"
    made.save(path)
    whole = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(saving, "MAX_FILE_BYTES", 100)
        with pytest.raises(converter.SpecError, match="bytes of weights, and a file of its kind"):
            made.save(path, external_data=False)
        assert path.read_bytes() == whole
        made.save(tmp_path / "b.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "b.onnx_data"]
    assert (tmp_path / "b.onnx_data").read_bytes() == params["large"].tobytes()
    assert not (tmp_path / "b.onnx_data").is_symlink()
    onnx.checker.check_model(tmp_path / "b.onnx")
    x = np.random.default_rng(1).standard_normal((7, 40)).astype(np.float32)
    session = ort.InferenceSession(tmp_path / "b.onnx", providers=["CPUExecutionProvider"])
    got = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(got[0], fn(params, x)[0], atol=1e-4)
    made.save(path, external_data=True)
    assert (tmp_path / "a.onnx_data").read_bytes() == params["large"].tobytes()
    assert converter.check(path, lambda x: fn(params, x), [x]).passed
    converter.save(made.model, path, external_data=False)
    assert path.read_bytes() == whole


def test_no_sidecar_of_nothing(tmp_path):
    converter.to_onnx(jnp.sin, [(2, 3)], path=tmp_path / "b.onnx", external_data=True)
    assert [file.name for file in tmp_path.iterdir()] == ["b.onnx"]
    with pytest.raises(converter.SpecError, match="external_data needs a path"):
        converter.to_onnx(jnp.sin, [(2, 3)], external_data=True)


def layouts():
    """Arrays as weight programs make them: views of others, of every order and type."""
    rng = np.random.default_rng(2)
    matrix = rng.standard_normal((300, 170)).astype(np.float32)
    kernel = rng.standard_normal((5, 3, 4, 130)).astype(np.float32)
    return {
        "as it is": matrix,
        "transposed halves": matrix.astype(np.float16).T,
        "bfloat16": jnp.asarray(matrix, jnp.bfloat16).__array__().T,
        "channels first": kernel.transpose(3, 2, 0, 1),
        "two axes": kernel.transpose(1, 0, 2, 3),
        "every third": matrix[::2, 1::3],
        "repeated": np.broadcast_to(matrix[:1], (40, 170)),
        "a scalar": np.array(3.0, np.float32),
        "nothing": np.zeros((4, 0), np.float32).T,
    }


@pytest.mark.parametrize("size", [1, 1000])
@pytest.mark.parametrize("name", layouts())
def test_pieces_are_the_bytes_in_order(name, size, monkeypatch):
    monkeypatch.setattr(laying, "PIECE_BYTES", size)
    array = layouts()[name]
    assert b"".join(laying.byte_pieces(array)) == array.tobytes()


def test_pieces_of_a_transposed_matrix_are_small():
    found = [len(piece) for piece in laying.byte_pieces(np.zeros((1000, 5000), np.float32).T)]
    assert sum(found) == 4 * 1000 * 5000 and max(found) <= laying.PIECE_BYTES


@pytest.mark.parametrize("external", [False, True])
def test_who_watches_gets_what_is_in_the_files(external, export, tmp_path):
    made, _, _ = export
    seen = defaultdict(bytes)

    def written(name, piece):
        seen[name] += bytes(piece)

    made.save(tmp_path / "a.onnx", external_data=external, on_write=written)
    assert seen == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(seen) == 1 + external


def test_the_device_is_full():
    """The system's own device of that kind: what its thread meets is raised where it is called."""
    with (
        pytest.raises(OSError, match="No space left on device"),
        open_writer(Path("/dev/full")) as put,
    ):
        put(bytes(1 << 20))


@pytest.mark.parametrize("external", [False, True])
def test_what_goes_wrong_leaves_nothing(external, export, tmp_path):
    made, _, params = export

    class Failing(dict):
        def __getitem__(self, name):
            raise KeyError("lost")

    def wrong(error):
        def written(name, piece):
            raise error

        return written

    path, full = tmp_path / "a.onnx", OSError(28, "No space left on device")
    with pytest.raises(ValueError, match="not this one"):
        made.save(path, external_data=external, on_write=wrong(ValueError("not this one")))
    with pytest.raises(SaveError, match="No space left on device") as error:
        made.save(path, external_data=external, on_write=wrong(full))
    assert error.value.errno == 28
    with pytest.raises(KeyError, match="lost"):
        made.save(path, Failing(params), external_data=external)
    assert list(tmp_path.iterdir()) == []
