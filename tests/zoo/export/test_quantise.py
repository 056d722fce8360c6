"""Matrices in integers: what they stand for, what is added to biases, how it is written."""

import subprocess
import sys

import numpy as np
import onnx_ir as ir
import pytest

import converter
from tests.zoo.export.test_precision import MODELS, write
from zoo.export.precision import CODECS
from zoo.export.quantise.matrices import quantise
from zoo.export.quantise.means import means


def drawn(seed, *shape):
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


MATRICES = {"first": drawn(0, 77, 33), "second": drawn(1, 77, 5)}
BIAS = drawn(2, 33)
"""No block of 32 fits in 77 rows; a column of zeros has no largest number."""
MATRICES["first"][:, 3] = 0


def two_products(opset=23):
    """Two products of the same activations, one of them with a bias and one without."""

    def network(p, x):
        return x @ p["first"] + p["bias"], x @ p["second"]

    params = {**MATRICES, "bias": BIAS}
    export = converter.to_onnx(network, [("n", 4, 77)], params=params, opset=opset)
    return ir.from_proto(ir.to_proto(export.model))


@pytest.mark.parametrize("precision", ["int8", "q4"])
def test_products_with_integers(precision):
    """As far from what the integers stand for as rounding the activations explains."""
    codec, model, mean = CODECS[precision], two_products(), drawn(3, 77)
    quantise(model, codec, dict.fromkeys(MATRICES, mean))
    x = drawn(4, 2, 4, 77)
    got = list(converter.run(model, [x]).values())
    step = np.ptp(x) / 255 if precision == "int8" else abs(x).max() / 127
    for (matrix, bias), found in zip(
        ((MATRICES["first"], BIAS), (MATRICES["second"], 0)), got, strict=True
    ):
        rounded = codec.rounded(matrix, codec.scales(matrix))
        assert not rounded[:, ~matrix.any(0)].any()
        wanted = x @ rounded + bias + mean @ (matrix - rounded)
        assert (abs(found - wanted) <= step / 2 * abs(rounded).sum(0) + 1e-4).all()
    names = set(model.graph.initializers)
    assert {"first", "first_scale", "second", "second_scale", "second_shift"} <= names
    assert "first_shift" not in names
    operators = [node.op_type for node in model.graph]
    # What both multiply is quantised once.
    assert operators.count("DynamicQuantizeLinear") == (precision == "int8")


@pytest.mark.parametrize("opset", [17, 18])
def test_means_of_activations(opset):
    export = converter.to_onnx(
        lambda p, x: x @ p["matrix"], [(1, 3, 4, 6)], params={"matrix": drawn(0, 6, 5)}, opset=opset
    )
    x = drawn(1, 1, 3, 4, 6)
    (found,) = means(export.model, x).values()
    mean = x.mean((0, 1, 2))
    np.testing.assert_allclose(found, (mean + mean[::-1]) / 2, atol=1e-6)


@pytest.mark.full
def test_no_room(tmp_path):
    """Nothing is left, and the reason is right."""
    source = write(tmp_path / "source.onnx", MODELS["dinov3_vits16"], 18)
    limit = source.stat().st_size // 4
    code = (
        "import pathlib, resource, numpy; from zoo.export.precision import derive; "
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit})); "
        "pixels = numpy.zeros((1, 3, 64, 96), numpy.float32); "
        "derive(pathlib.Path('source.onnx'), pathlib.Path('int8.onnx'), 'int8', pixels)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "File too large" in done.stderr.splitlines()[-1]
    assert {path.name for path in tmp_path.iterdir()} == {"source.onnx"}
