"""A file whose tensors lie beside it runs in place: the same numbers, and hardly any memory."""

import gc
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest

import converter

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3, 40), np.float32)


def is_mapped(live):
    """Whether a session takes memory for nothing but what it computes."""
    return not live.get_session_options().enable_cpu_mem_arena


def network(matrix):
    """`cast(matrix)` times what comes in, and something that depends on parameters alone."""
    x, y = ir.val("x", ir.DataType.FLOAT, [3, 40]), ir.val("y", ir.DataType.FLOAT, [3, 24])
    weight = ir.val("weight", const_value=ir.tensor(matrix, name="weight"))
    shift = ir.val("shift", const_value=ir.tensor(np.arange(24, dtype=np.float32), name="shift"))
    cast = ir.node("Cast", [weight], {"to": ir.DataType.FLOAT.value})
    twice = ir.node("Add", [shift, shift])
    product = ir.node("MatMul", [x, cast.outputs[0]])
    last = ir.node("Add", [product.outputs[0], twice.outputs[0]], outputs=[y])
    nodes, held = [cast, twice, product, last], [weight, shift]
    graph = ir.Graph([x], [y], nodes=nodes, initializers=held, opset_imports={"": 23})
    return ir.Model(graph, ir_version=10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int8])
def test_tensors_beside_the_file(dtype, tmp_path, monkeypatch):
    matrix = (4 * RNG.standard_normal((40, 24))).astype(dtype)
    file = tmp_path / "a.onnx"
    ir.save(network(matrix), file, external_data="a.onnx_data", size_threshold_bytes=0)
    wanted = X @ matrix.astype(np.float32) + 2 * np.arange(24)
    monkeypatch.chdir(tmp_path)
    for path in (file, str(file), Path("a.onnx")):
        live = converter.session(path)
        assert is_mapped(live)
        gc.collect()  # a session does not keep what it is given
        np.testing.assert_allclose(converter.run(live, [X])["y"], wanted, rtol=1e-5, atol=1e-4)
        plain = ort.InferenceSession(file, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(plain.run(None, {"x": X})[0], wanted, rtol=1e-5, atol=1e-4)
    np.testing.assert_allclose(converter.run(ir.load(file), [X])["y"], wanted, rtol=1e-5, atol=1e-4)
    assert {path.name for path in tmp_path.iterdir()} == {"a.onnx", "a.onnx_data"}


def test_tensors_in_the_file(tmp_path):
    ir.save(network(np.zeros((40, 24), np.float32)), tmp_path / "a.onnx")
    assert not is_mapped(converter.session(tmp_path / "a.onnx"))


MEMORY = """
import sys, numpy as np, onnxruntime as ort, converter
def owned():
    status = dict(line.split(":") for line in open("/proc/self/status") if ":" in line)
    return int(status["RssAnon"].split()[0])
ort.InferenceSession(sys.argv[2])
before = owned()
live = (converter.session if sys.argv[3] == "mapped" else ort.InferenceSession)(sys.argv[1])
live.run(None, {"x": np.ones((3, 4000), np.float32)})
print((owned() - before) >> 10)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="memory is read where Linux keeps it")
def test_memory(tmp_path):
    """64 MB of parameters: ONNX Runtime owns a packed copy of them, the mapped session nothing."""
    for name, width in (("large", 4000), ("small", 4)):
        x = ir.val("x", ir.DataType.FLOAT, [3, width])
        weight = ir.val("w", const_value=ir.tensor(np.ones((width, width), np.float32), name="w"))
        product = ir.node("MatMul", [x, weight])
        graph = ir.Graph(
            [x], product.outputs, nodes=[product], initializers=[weight], opset_imports={"": 23}
        )
        product.outputs[0].dtype, product.outputs[0].shape = x.dtype, x.shape
        path = tmp_path / f"{name}.onnx"
        ir.save(ir.Model(graph, ir_version=10), path, external_data=f"{name}.onnx_data")

    def megabytes(how):
        paths = [str(tmp_path / f"{name}.onnx") for name in ("large", "small")]
        command = [sys.executable, "-c", MEMORY, *paths, how]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return int(re.findall(r"-?\d+", done.stdout)[-1])

    assert megabytes("plain") > 50
    assert megabytes("mapped") < 16
