"""Memory-mapped sessions of files with a sidecar: numbers, compared with numpy, and memory."""

import functools
import gc
import re
import subprocess
import sys
from pathlib import Path

import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 40), np.float32)


def is_mapped(loaded_session):
    """Return whether a session is memory-mapped: it then has no memory arena."""
    return not loaded_session.get_session_options().enable_cpu_mem_arena


def network(matrix):
    """Return a model that computes ``x @ cast(matrix) + 2 * shift``.

    Its last term depends on parameters alone.
    """
    x, y = ir.val("x", ir.DataType.FLOAT, [3, 40]), ir.val("y", ir.DataType.FLOAT, [3, 24])
    initializers = {"weight": matrix, "shift": np.arange(24, dtype=np.float32)}
    initializers = [
        ir.val(name, const_value=ir.tensor(a, name=name)) for name, a in initializers.items()
    ]
    cast = ir.node("Cast", initializers[:1], {"to": ir.DataType.FLOAT.value})
    doubled = ir.node("Add", [initializers[1], initializers[1]])
    product = ir.node("MatMul", [x, *cast.outputs])
    nodes = [
        cast,
        doubled,
        product,
        ir.node("Add", [*product.outputs, *doubled.outputs], outputs=[y]),
    ]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=initializers, opset_imports={"": 23})
    return ir.Model(graph, ir_version=10)


@pytest.mark.each()
@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
def test_files_with_a_sidecar_are_mapped(dtype, tmp_path, monkeypatch, request):
    gc.freeze()  # a collection then visits only the objects of this test
    request.addfinalizer(gc.unfreeze)
    matrix = (4 * RNG.standard_normal((40, 24))).astype(dtype)
    file = tmp_path / "a.onnx"
    ir.save(network(matrix), file, external_data="a.onnx_data", size_threshold_bytes=0)
    expected = X @ matrix.astype(np.float32) + 2 * np.arange(24)
    monkeypatch.chdir(tmp_path)
    for path in (file, str(file), Path("a.onnx")):
        loaded_session = converter.session(path)
        assert is_mapped(loaded_session)
        gc.collect()  # ONNX Runtime keeps no references to tensors
        np.testing.assert_allclose(
            converter.run(loaded_session, [X])["y"], expected, rtol=1e-5, atol=1e-4
        )
        ort_session = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(
            ort_session.run(None, {"x": X})[0], expected, rtol=1e-5, atol=1e-4
        )
    np.testing.assert_allclose(
        converter.run(ir.load(file), [X])["y"], expected, rtol=1e-5, atol=1e-4
    )
    assert {path.name for path in tmp_path.iterdir()} == {"a.onnx", "a.onnx_data"}


def test_files_without_a_sidecar_are_not_mapped(tmp_path):
    ir.save(network(np.zeros((40, 24), np.float32)), tmp_path / "a.onnx")
    assert not is_mapped(converter.session(tmp_path / "a.onnx"))


MEMORY = """
import sys, threading, time, numpy as np, onnx_ir as ir, onnxruntime as ort, converter
def owned():
    status = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
    return int(status["RssAnon"].split()[0])
def run(file, how):
    model = ir.load(file) if how == "emulated" else file
    if how == "emulated":
        model = converter.emulate_bfloat16(model)
    live = (ort.InferenceSession if how == "plain" else converter.session)(model)
    live.run(None, {"x": np.ones((3, 1000), np.float32)})
def watch():
    while not done:
        peaks.append(owned())
        time.sleep(0.001)
run(sys.argv[2], sys.argv[3])
peaks, done = [owned()], []
threading.Thread(target=watch).start()
run(sys.argv[1], sys.argv[3])
done.append(True)
print((max(peaks) - peaks[0]) >> 10)
"""


def save_chain(path, depth, precision):
    """Save a model of ``depth`` products with matrices of 4 MB in float32, with a sidecar."""
    params = [RNG.standard_normal((1000, 1000), np.float32) / 40 for _ in range(depth)]

    def fn(params, x):
        return functools.reduce(lambda x, w: jnp.tanh(x @ w), params, x)

    model = converter.to_onnx(fn, [(3, 1000)], params=params).model
    if precision != "float32":
        model = converter.lower_precision(model, precision)
    ir.save(model, path, external_data=f"{path.name}_data")


@pytest.mark.full
@pytest.mark.skipif(
    sys.platform != "linux", reason="memory is read from /proc, which only Linux has"
)
@pytest.mark.parametrize(
    "precision, mode", [("float32", "mapped"), ("float16", "mapped"), ("bfloat16", "emulated")]
)
def test_mapped_sessions_own_little_memory(precision, mode, tmp_path):
    """Of 96 MB of parameters, a session owns less than 24 MB at a time, cast or not."""
    paths = tmp_path / "large.onnx", tmp_path / "small.onnx"
    for path, depth in zip(paths, (24, 1), strict=True):
        save_chain(path, depth, precision)

    def megabytes(mode):
        command = [sys.executable, "-c", MEMORY, *paths, mode]
        process = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(re.findall(r"-?\d+", process.stdout)[-1])

    assert megabytes(mode) < 24
    if mode == "mapped":
        assert megabytes("plain") > 80
