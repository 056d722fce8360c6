"""Files and sidecars that are written tensor by tensor, compared with onnx's serialization."""

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
from converter.model import streaming as streaming_module
from converter.model.streaming import open_writer

# The attribute `saving` of the package is a function, so the module is imported by its name.
saving = importlib.import_module("converter.model.saving")


@pytest.fixture
def export():
    """Return an export, its function and its parameters, which have several sizes and dtypes."""
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


def test_a_single_file_agrees_with_onnx(export, tmp_path):
    saved_export, _, _ = export
    saved_export.save(tmp_path / "a.onnx")
    files = onnx.load(tmp_path / "a.onnx"), ir.to_proto(saved_export.model)
    actual, expected = (
        {t.name: onnx.numpy_helper.to_array(t) for t in file.graph.initializer} for file in files
    )
    np.testing.assert_equal(actual, expected)
    for file in files:
        del file.graph.initializer[:]
    assert files[0] == files[1]
    onnx.checker.check_model(tmp_path / "a.onnx", full_check=True)


def test_a_sidecar_is_written_if_needed_or_requested(export, tmp_path, monkeypatch):
    """A sidecar is written if the file is too large, or on request.

    The model keeps its tensors and can be saved again.
    """
    saved_export, fn, params = export
    path = tmp_path / "a.onnx"
    saved_export.save(path)
    file_bytes = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(saving, "MAX_FILE_BYTES", 100)
        with pytest.raises(converter.SpecError, match="bytes of weights, and a file of its kind"):
            saved_export.save(path, external_data=False)
        assert path.read_bytes() == file_bytes
        saved_export.save(tmp_path / "b.onnx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "b.onnx_data"]
    assert (tmp_path / "b.onnx_data").read_bytes() == params["large"].tobytes()
    assert not (tmp_path / "b.onnx_data").is_symlink()
    onnx.checker.check_model(tmp_path / "b.onnx")
    x = np.random.default_rng(1).standard_normal((7, 40)).astype(np.float32)
    session = ort.InferenceSession(tmp_path / "b.onnx", providers=["CPUExecutionProvider"])
    actual = session.run(None, {session.get_inputs()[0].name: x})
    np.testing.assert_allclose(actual[0], fn(params, x)[0], atol=1e-4)
    saved_export.save(path, external_data=True)
    assert (tmp_path / "a.onnx_data").read_bytes() == params["large"].tobytes()
    assert converter.check(path, lambda x: fn(params, x), [x]).passed
    converter.save(saved_export.model, path, external_data=False)
    assert path.read_bytes() == file_bytes


def test_models_without_weights_have_no_sidecar(tmp_path):
    converter.to_onnx(jnp.sin, [(2, 3)], path=tmp_path / "b.onnx", external_data=True)
    assert [file.name for file in tmp_path.iterdir()] == ["b.onnx"]
    with pytest.raises(converter.SpecError, match="external_data needs a path"):
        converter.to_onnx(jnp.sin, [(2, 3)], external_data=True)


def arrays_by_layout():
    """Return arrays such as weight programs compute: views of others in all orders and dtypes."""
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
@pytest.mark.parametrize("name", arrays_by_layout())
def test_pieces_join_to_the_bytes_of_the_array(name, size, monkeypatch):
    monkeypatch.setattr(streaming_module, "PIECE_BYTES", size)
    array = arrays_by_layout()[name]
    assert b"".join(streaming_module.byte_pieces(array)) == array.tobytes()


def test_pieces_of_a_transposed_matrix_are_small():
    lengths = [
        len(piece) for piece in streaming_module.byte_pieces(np.zeros((1000, 5000), np.float32).T)
    ]
    assert sum(lengths) == 4 * 1000 * 5000 and max(lengths) <= streaming_module.PIECE_BYTES


@pytest.mark.parametrize("external", [False, True])
def test_on_write_receives_the_bytes_of_the_files(external, export, tmp_path):
    saved_export, _, _ = export
    bytes_by_file = defaultdict(bytes)

    def record(name, piece):
        bytes_by_file[name] += bytes(piece)

    saved_export.save(tmp_path / "a.onnx", external_data=external, on_write=record)
    assert bytes_by_file == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(bytes_by_file) == 1 + external


def test_errors_of_the_writer_are_raised():
    """An error in the writer's thread is raised in the calling thread; /dev/full gives one."""
    with (
        pytest.raises(OSError, match="No space left on device"),
        open_writer(Path("/dev/full")) as write,
    ):
        write(bytes(1 << 20))


@pytest.mark.parametrize("external", [False, True])
def test_failed_saves_leave_no_files(external, export, tmp_path):
    saved_export, _, params = export

    class FailingParams(dict):
        def __getitem__(self, name):
            raise KeyError("lost")

    def raise_on_write(error):
        def on_write(name, piece):
            raise error

        return on_write

    path, disk_full = tmp_path / "a.onnx", OSError(28, "No space left on device")
    with pytest.raises(ValueError, match="not this one"):
        saved_export.save(
            path, external_data=external, on_write=raise_on_write(ValueError("not this one"))
        )
    with pytest.raises(SaveError, match="No space left on device") as error:
        saved_export.save(path, external_data=external, on_write=raise_on_write(disk_full))
    assert error.value.errno == 28
    with pytest.raises(KeyError, match="lost"):
        saved_export.save(path, FailingParams(params), external_data=external)
    assert list(tmp_path.iterdir()) == []
