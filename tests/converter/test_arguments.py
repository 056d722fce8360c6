"""Inputs in pytrees, by name, and values that stay what they are."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter


class Boxes(NamedTuple):
    corners: object
    scores: object


def net(batch, boxes, *, training, scale, activation):
    image, mask = batch["image"], batch["mask"]
    best = jnp.where(mask, boxes.scores, 0) @ boxes.corners
    result = activation(image.mean(1) * scale) + best.sum()
    return {"out": result + 1 if training else result, "best": best}


SPECS = [
    {"image": ("B", 3), "mask": ((4,), "bool")},
    Boxes(((4, 2), np.float32), np.zeros(4, np.float32)),
]
KWARGS = {"scale": ("B",), "training": False, "activation": jnp.tanh}


def inputs():
    rng = np.random.default_rng(0)
    batch = {
        "image": rng.standard_normal((2, 3), np.float32),
        "mask": np.array([True, False, True, True]),
    }
    boxes = Boxes(rng.standard_normal((4, 2), np.float32), rng.random(4, np.float32))
    return batch, boxes, rng.random(2, np.float32)


def test_pytrees():
    export = converter.to_onnx(net, SPECS, kwargs=KWARGS)
    names = ["batch.image", "batch.mask", "boxes.corners", "boxes.scores", "scale"]
    assert [v.name for v in export.model.graph.inputs] == names
    assert [v.name for v in export.model.graph.outputs] == ["best", "out"]
    assert converter.check(export, net).passed
    assert converter.check(export, net, inputs()).passed
    assert converter.bisect(net, inputs(), specs=SPECS, kwargs=KWARGS) is None


def test_a_word_that_is_given_by_name_matters():
    def fn(x, how):
        return x + 1 if how == "more" else x - 1

    for how in ("more", "less"):
        export = converter.to_onnx(fn, [(3,)], kwargs={"how": how})
        assert converter.check(export, fn).passed
        assert [v.name for v in export.model.graph.inputs] == ["x"]


def test_parameters_come_first():
    params = {"w": np.ones((3, 2), np.float32)}

    def fn(params, batch, *, bias):
        return batch["x"] @ params["w"] + bias

    export = converter.to_onnx(fn, [{"x": ("B", 3)}], params=params, kwargs={"bias": (2,)})
    assert [v.name for v in export.model.graph.inputs] == ["batch.x", "bias"]
    assert converter.check(export, lambda *x, **y: fn(params, *x, **y)).passed


def test_no_inputs_are_no_number():
    export = converter.to_onnx(lambda: jnp.arange(3), [])
    assert converter.check(export, lambda: jnp.arange(3), []).passed


def test_a_scalar_is_an_input():
    assert converter.check(converter.to_onnx(jnp.sin, [()]), jnp.sin).passed
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


def test_named_sizes_are_traced_too():
    (size,) = jax.export.symbolic_shape("B")
    traced = jax.jit(jnp.cumsum).trace(jax.ShapeDtypeStruct((size,), np.float32))
    assert converter.check(converter.to_onnx(traced), jnp.cumsum).passed


def test_what_cannot_take_the_place_of_a_function():
    exported = jax.export.export(jax.jit(jnp.sin))(jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(converter.SpecError, match="StableHLO"):
        converter.to_onnx(exported)
    with pytest.raises(converter.SpecError, match="its own inputs"):
        converter.to_onnx(jax.jit(jnp.sin).trace(np.ones(3)), [(3,)])
    with pytest.raises(converter.SpecError, match="received None"):
        converter.to_onnx(jnp.sin)


SAID = {"an input spec must be a shape": [3.5, {"x": 4}, {"x": None, "y": 2.0}]}
SAID["cannot be read"] = [[("B", 3), 7], ("B", 3.5), ((2, 3), (4, "1x"))]


@pytest.mark.parametrize("said", SAID)
def test_what_is_no_spec_is_said(said):
    for spec in SAID[said]:
        with pytest.raises(converter.SpecError, match=said):
            converter.to_onnx(lambda x: x, [spec])
