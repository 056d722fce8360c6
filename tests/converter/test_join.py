"""`converter.join`, which makes one model of two, compared with running both in turn."""

import math

import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import converter
from converter.verify.sessions import run


def first(image):
    return jnp.sin(image.astype(jnp.float32) * 2 + 1).sum(-1)


def second(params, pixels):
    return jnp.where(pixels > 0, jnp.sin(pixels) * 2 + 1, params["image"]), pixels * 3


PARAMS = {"image": jnp.arange(4.0)}


def models(opset=20):
    front = converter.to_onnx(first, [(("n", 4, 3), np.uint8)], opset=opset)
    return front, converter.to_onnx(second, [("n", 4)], params=PARAMS, opset=opset)


def test_a_joined_model_computes_both():
    """The joined model keeps the names of the second model and renames clashing ones of the first.

    It computes the outputs of both models in turn.
    """
    front, back = models()
    names = {value.name for node in back.model.graph for value in node.outputs}
    assert names & {value.name for node in front.model.graph for value in node.outputs}
    joined = converter.join(front.model, back.model)
    proto = ir.to_proto(joined)
    onnx.checker.check_model(proto, full_check=True)
    values = [output for node in proto.graph.node for output in node.output]
    values += [tensor.name for tensor in proto.graph.initializer]
    assert len(set(values)) == len(values)
    assert {*names, "pixels", "image"} <= set(values)
    assert len({node.name for node in proto.graph.node}) == len(proto.graph.node)
    assert [value.name for value in proto.graph.input] == ["image_1"]
    assert converter.report(joined).nodes == len(proto.graph.node)
    image = np.random.default_rng(0).integers(0, 255, (5, 4, 3), dtype=np.uint8)
    for actual, expected in zip(
        run(joined, [image]).values(), second(PARAMS, first(image)), strict=True
    ):
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)


def test_initializers_are_not_read():
    front, back = models()

    def load():
        raise AssertionError

    lazy_tensor = ir.LazyTensor(load, dtype=ir.DataType.FLOAT, shape=ir.Shape([4]), name="image")
    back.model.graph.initializers["image"].const_value = lazy_tensor
    model = converter.join(front.model, back.model)
    assert model is back.model
    assert model.graph.initializers["image"].const_value is lazy_tensor
    assert not list(front.model.graph)


def test_models_with_functions_are_rejected():
    """ONNX Script and torch's exporter write such models."""
    front, back = models()
    empty = ir.Graph([], [], nodes=[])
    function = ir.Function("own", "twice", graph=empty, attributes=())
    front.model.functions[function.identifier()] = function
    with pytest.raises(converter.SpecError, match="inline these first"):
        converter.join(front.model, back.model)
    with pytest.raises(converter.SpecError, match="inline the functions first"):
        converter.lower_precision(front.model, "float16")


def test_models_that_do_not_fit_are_rejected():
    front, _ = models(18)
    _, back = models(20)
    with pytest.raises(converter.SpecError, match="opsets"):
        converter.join(front.model, back.model)
    wider = converter.to_onnx(first, [(("n", 5, 3), np.uint8)], opset=20)
    with pytest.raises(converter.SpecError, match=r"gives FLOAT\[n,5\].*takes FLOAT\[n,4\]"):
        converter.join(wider.model, back.model)


def transpose_and_cast(x):
    return jnp.transpose(x, (1, 0, 2)).astype(jnp.float32)


PRODUCTS = {
    "a matrix by a vector": (jnp.transpose, np.float32, (4, 3), jnp.arange(4.0)),
    "converted": (transpose_and_cast, np.int32, (2, 3, 4), jnp.arange(8.0).reshape(4, 2)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products_at_the_seam_are_exact(name):
    """Products whose input was a model input before the join have operands of equal rank.

    Otherwise ONNX Runtime's optimizer gave other numbers for the first program, and ended the
    process with the second.
    """
    front, dtype, shape, weight = PRODUCTS[name]
    x = np.arange(math.prod(shape), dtype=dtype).reshape(shape)
    first_part = converter.to_onnx(front, [x])
    second_part = converter.to_onnx(lambda y: y @ weight, [front(x).shape])
    joined = converter.join(first_part.model, second_part.model)
    (product,) = [node for node in joined.graph if node.op_type == "MatMul"]
    assert len({value.shape.rank() for value in product.inputs}) == 1
    (actual,) = run(joined, [x]).values()
    np.testing.assert_array_equal(actual, front(jnp.asarray(x)) @ weight)
