"""Inputs in pytrees, by name, and values that stay what they are."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter
from converter.verify.sessions import run


class Boxes(NamedTuple):
    corners: object
    scores: object


def net(batch, boxes, *, training, scale, activation, reduction):
    image, mask = batch["image"], batch["mask"]
    best = jnp.where(mask, boxes.scores, 0) @ boxes.corners
    result = activation(image.mean(1) * scale) + getattr(best, reduction)()
    return {"out": result + 1 if training else result, "best": best}


SPECS = [
    {"image": ("B", 3), "mask": ((4,), "bool")},
    Boxes(((4, 2), np.float32), np.zeros(4, np.float32)),
]
KWARGS = {"scale": ("B",), "training": False, "activation": jnp.tanh}


@pytest.mark.parametrize("reduction", ["sum", "max"])
def test_pytrees(reduction):
    """Words and functions that are given by name are no inputs, and matter."""
    rng, kwargs = np.random.default_rng(0), {**KWARGS, "reduction": reduction}
    batch = {"image": rng.random((2, 3), np.float32), "mask": np.array([True, False, True, True])}
    boxes = Boxes(rng.standard_normal((4, 2), np.float32), rng.random(4, np.float32))
    inputs = batch, boxes, rng.random(2, np.float32)
    export = converter.to_onnx(net, SPECS, kwargs=kwargs, verify=True)
    names = ["batch.image", "batch.mask", "boxes.corners", "boxes.scores", "scale"]
    assert [v.name for v in export.model.graph.inputs] == names
    assert [v.name for v in export.model.graph.outputs] == ["best", "out"]
    assert converter.check(export, net, inputs).passed
    assert converter.bisect(net, inputs, specs=SPECS, kwargs=kwargs) is None


def test_parameters_come_first():
    params, kwargs = {"w": np.ones((3, 2), np.float32)}, {"bias": (2,)}

    def fn(params, batch, *, bias):
        return batch["x"] @ params["w"] + bias

    export = converter.to_onnx(fn, [{"x": ("B", 3)}], params=params, kwargs=kwargs, verify=True)
    assert [v.name for v in export.model.graph.inputs] == ["batch.x", "bias"]


def test_a_scalar_is_an_input():
    converter.to_onnx(jnp.sin, [()], verify=True)
    with pytest.raises(converter.SpecError, match="an input spec must be a shape"):
        converter.to_onnx(jnp.sin, [(3,), np.float32])  # for [((3,), np.float32)]


def staged(x, *, scale, power):
    return {"out": (x * scale["s"]) ** power, "sum": x.sum()}


def test_what_is_traced_already():
    traced = jax.jit(staged, static_argnames="power").trace(
        np.ones((2, 3), np.float32), scale={"s": np.ones(3, np.float32)}, power=2
    )
    export = converter.to_onnx(traced)
    assert [v.name for v in export.model.graph.inputs] == ["input_0", "scale.s"]
    assert [v.name for v in export.model.graph.outputs] == ["out", "sum"]
    assert converter.check(export, lambda x, scale: staged(x, scale=scale, power=2)).passed
    assert converter.explain(traced).is_convertible


def test_what_cannot_take_the_place_of_a_function():
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(converter.SpecError, match="StableHLO"):
        converter.to_onnx(exported)
    with pytest.raises(converter.SpecError, match="its own inputs"):
        converter.to_onnx(jax.jit(jnp.sin).trace(np.ones(3)), [(3,)])
    with pytest.raises(converter.SpecError, match="received None"):
        converter.to_onnx(jnp.sin)


SAID = {"an input spec must be a shape": [3.5, {"x": 4}, {"x": None, "y": 2.0}]}
SAID["cannot be read"] = [[("B", 3), 7], ("B", 3.5), ("B", "C D"), ((2, 3), (4, "1x"))]


@pytest.mark.parametrize("said", SAID)
def test_what_is_no_spec_is_said(said):
    for spec in SAID[said]:
        with pytest.raises(converter.SpecError, match=said):
            converter.to_onnx(lambda x: x, [spec])


# ----------------------------------------------------- 64 bits where JAX computes in 32 without x64

TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)


@pytest.mark.parametrize(
    ("dtype", "onnx", "number", "wanted"),
    [
        (np.int64, "INT64", 2**40 + 5, 6),
        (np.uint64, "UINT64", 2**33 + 7, 8),
        (np.float64, "DOUBLE", 1e300, np.inf),
    ],
)
def test_beyond_32_bits(dtype, onnx, number, wanted):
    """Inputs keep their dtype; they wrap, or become infinite, as where JAX takes them."""
    export = converter.to_onnx(lambda x: jnp.add(x, 1), [(("B", 3), dtype)], verify=True)
    (given,) = export.model.graph.inputs
    assert str(given.dtype) == onnx
    (got,) = run(export, [np.full((2, 3), number, dtype)]).values()
    np.testing.assert_array_equal(got, np.full((2, 3), wanted))
    assert got.dtype.itemsize == 4


def test_token_ids():
    ids = np.array([[3, 0, -1], [1, 1, 2]], np.int64)
    export = converter.to_onnx(lambda ids: jnp.asarray(TABLE)[ids], [ids], verify=[ids])
    assert export.report.histogram["Cast"] == 1


def test_a_module_with_parameters_of_64_bits():
    matrix = np.arange(6.0).reshape(3, 2)
    converter.to_onnx(eqx.Partial(lambda w, x: jnp.dot(x, w), matrix), [(3,)], verify=True)
