"""Products of transposed operands, over which ONNX Runtime's optimiser ended the process."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
import pytest

import converter

W = np.random.default_rng(0).standard_normal((5, 2), np.float32)

PRODUCTS = {
    "as it is": (lambda x, y: jnp.transpose(x, (1, 0, 2)) @ y, (4, 3, 5), (5, 2)),
    "scaled": (lambda x, y: (jnp.transpose(x, (1, 0, 2)) * 2) @ y, (4, 3, 5), (5, 2)),
    "divided": (lambda x, y: (jnp.transpose(x, (1, 0, 2)) / 3) @ y, (4, 3, 5), (5, 2)),
    "by a vector": (lambda x, y: (jnp.transpose(x, (1, 0, 2)) * 2) @ y, (4, 3, 5), (5,)),
    "from the left": (lambda x, y: x @ (jnp.transpose(y, (1, 0, 2)) * 2), (2, 5), (5, 3, 4)),
    "a vector from the left": (lambda x, y: x @ (jnp.transpose(y, (1, 2, 0)) * 2), (5,), (4, 3, 5)),
    "turned": (lambda x, y: (jnp.transpose(x, (1, 2, 0)) * 0.5) @ y, (4, 3, 5), (4, 2)),
    "four axes": (lambda x, y: x @ jnp.transpose(y, (1, 2, 0)), (2, 3, 4, 5), (6, 3, 5)),
    "by a weight": (lambda x: jnp.transpose(x, (1, 0, 2)) @ W.astype(x.dtype), (4, 3, 5)),
    "twice": (lambda x: jnp.transpose(x, (1, 2, 0)).swapaxes(0, 1) @ W.astype(x.dtype), (5, 4, 3)),
    "lanes": (lambda x: jax.vmap(lambda a: a @ W.astype(x.dtype), 1)(x), (4, 3, 5)),
    "a part": (lambda x: jnp.transpose(x, (1, 0, 2))[:2] @ W.astype(x.dtype), (4, 3, 5)),
    "shifted": (lambda x: (jnp.transpose(x, (1, 0, 2)) + 1) * 2 @ W.astype(x.dtype), (4, 3, 5)),
    "centred": (lambda x: centred(jnp.transpose(x, (1, 0, 2))) @ W.astype(x.dtype), (4, 3, 5)),
}


def centred(x):
    return x - x.mean(0, keepdims=True)


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_transposed(name, dtype):
    fn, *shapes = PRODUCTS[name]
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(dtype) for shape in shapes]
    verdict = converter.check(converter.to_onnx(fn, inputs), fn, inputs)
    assert verdict.passed, verdict.differences


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("precision", ["float16", "bfloat16"])
def test_transposed_in_a_file_of_lower_precision(name, precision):
    fn, *shapes = PRODUCTS[name]
    rng = np.random.default_rng(3)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    model = converter.lower_precision(converter.to_onnx(fn, shapes).model, precision)
    if precision == "bfloat16":
        model = converter.emulate_bfloat16(model)
    (got,) = converter.run(model, inputs).values()
    unit = float(jnp.finfo(precision).eps)
    np.testing.assert_allclose(got, fn(*inputs), rtol=0, atol=16 * unit)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.bool_, np.float16])
@pytest.mark.parametrize("order", [(1, 0, 2), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("axes", [1, 2, 4])
def test_transposed_and_converted(dtype, order, axes):
    """In float32 too, as of pixels or tokens."""
    sizes = np.empty(3, int)
    sizes[list(order)] = (4, 3, 5)
    w = np.arange(10, dtype=np.float32).reshape((1,) * (axes - 2) + (5, 2)) if axes > 1 else W[:, 0]

    def fn(x):
        return jnp.transpose(x, order).astype(np.float32) @ w

    x = (np.arange(60).reshape(sizes) % 7).astype(dtype)
    export = converter.to_onnx(fn, [x])
    verdict = converter.check(export, fn, [x])
    assert verdict.passed, verdict.differences


def test_inside_a_loop():
    """A body has products too, whose names are taken in the whole file."""

    def fn(x, carry):
        def step(c, row):
            turned = jnp.transpose(row, (1, 0, 2)).astype(np.float32)
            return c + (turned @ W).sum(), turned @ W

        return jax.lax.scan(step, carry, x)

    inputs = [np.arange(120, dtype=np.int32).reshape(2, 4, 3, 5), np.float32(1)]
    verdict = converter.check(converter.to_onnx(fn, inputs), fn, inputs)
    assert verdict.passed, verdict.differences


def test_the_first_axis_in_its_place_is_left_alone():
    """Heads and images are turned so: their products stay as they are written."""

    def fn(x):
        return jnp.transpose(x, (0, 2, 1)).astype(np.float32) @ W

    model = converter.to_onnx(fn, [((4, 5, 3), np.float16)]).model
    assert [n.op_type for n in model.graph] == ["Transpose", "Cast", "MatMul"]


def test_names_stay():
    def fn(x):
        return jnp.transpose(x, (1, 0, 2)) @ W[:, 0].astype(x.dtype)

    x = ((4, 3, 5), np.float16)
    model = converter.to_onnx(fn, [x], input_names=["axes"], output_names=["product"]).model
    assert [v.name for v in model.graph.outputs] == ["product"]
    assert ir.Shape(model.graph.outputs[0].shape) == ir.Shape([3, 4])
    names = [v.name for node in model.graph for v in node.outputs]
    assert len({*names, "axes", *model.graph.initializers}) == len(names) + 1 + len(
        model.graph.initializers
    )
