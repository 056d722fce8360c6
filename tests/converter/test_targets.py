"""Files for each target: operators and dtypes that it accepts, and numbers, compared with JAX.

OpenVINO and ONNX's reference evaluator compute the numbers.
"""

import re
from contextlib import closing

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax import lax

import converter
import zoo
from tests.judges.evaluator import evaluate
from tests.judges.runtimes import Apart
from tests.programs.primitives import (
    BINARY,
    CHOOSING,
    SUMMING,
    UNARY,
    matrix,
    of_dtype,
    supported_functions,
)
from zoo.architectures.builder import abstract
from zoo.common.errors import BadRequest
from zoo.common.staging import NAME
from zoo.export.make import convert_model
from zoo.export.request import Options, Signature, plan_files

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
ALLOWED = {ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.INT32, ir.DataType.BOOL}
COMPUTING = {"Add", "Sub", "Mul", "Div", "Mod", "ReduceSum", "CumSum", "Min", "Max", "Clip", "Neg"}

NAMES = (
    *("reduce_max", "reduce_min", "argmax", "select_n", "pad", "sort", "cumsum", "matmul"),
    *("reduce_sum", "reduce_prod", "scatter-add", "sum_pool", "neg", "sign", "erf", "logistic"),
    *("atan", "sinh"),
)
UNARY_FUNCTIONS = {name: {**CHOOSING, **SUMMING, **UNARY}[name] for name in NAMES}
BINARY_FUNCTIONS = {name: BINARY[name] for name in ("add", "max", "lt")}


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        *(("standard", dtype) for dtype in (*INTEGERS, *FLOATS)),
        *(("openvino", d) for d in ("int8", "uint8", "int32", "uint32", "float16", "float32")),
    ],
)
def test_dtypes_of_each_target_agree_with_jax(target, dtype):
    """Files of each dtype agree with JAX; all operations are in one file.

    In a file for ONNX Runtime, OpenVINO computes products of integers above 8 bits wrongly.
    """
    inputs = [x := matrix(dtype, small=True), x[::-1, ::-1].copy()]
    with jax.enable_x64(target == "standard"):
        unary, binary = (
            list(supported_functions(of_dtype(UNARY_FUNCTIONS, dtype), x).values()),
            list(supported_functions(BINARY_FUNCTIONS, *inputs).values()),
        )

        def fn(x, y):
            return [f(x) for f in unary], [f(x, y) for f in binary]

        expected = jax.tree.leaves(fn(*map(jnp.asarray, inputs)))
        for opset in (17, 23):
            model = ir.to_proto(converter.to_onnx(fn, inputs, opset=opset, target=target).model)
            onnx.checker.check_model(model, full_check=True)
            if target == "standard":
                results = evaluate(model, inputs)
            else:
                with closing(Apart("openvino")) as run:
                    results = run(model.SerializeToString(), inputs)
            assert not isinstance(results, BaseException), results
            for actual, reference in zip(results, expected, strict=True):
                rtol = 2e-3 if actual.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(actual, reference, rtol=rtol, atol=1e-5)


def test_dtype_fallbacks_of_runtimes_are_not_in_standard_files():
    def fn(x, short, long):
        return lax.erf(x), jnp.maximum(short, 1), long.max(1)

    with jax.enable_x64(True):
        spec = [((3, 4), dtype) for dtype in ("float64", "int16", "int64")]
        default_histogram = converter.to_onnx(fn, spec).report.histogram
        standard_histogram = converter.to_onnx(fn, spec, target="standard").report.histogram
    assert standard_histogram == {"Erf": 1, "Max": 1, "ReduceMax": 1}
    assert "Erf" not in default_histogram
    assert default_histogram["Cast"] == 2
    assert default_histogram["TopK"] == 1


@pytest.mark.each("target")
@pytest.mark.parametrize("size", [(96, 128), None], ids=["fixed", "open"])
@pytest.mark.parametrize("target", ["tensorrt", "openvino", "web"])
def test_vision_transformers_have_forms_that_devices_accept(target, size):
    """Attention has an axis of heads and one output, and only indices are integers of 64 bits."""
    model = abstract(zoo.info("dinov3_vits16").config)
    export = convert_model(model, 23, Signature(size, None), target=target)
    ir.passes.common.ShapeInferencePass()(export.model)  # computed lengths have no dtype before it
    nodes = [*export.model.graph.all_nodes()]
    attentions = [node for node in nodes if node.op_type == "Attention"]
    assert len(attentions) == 12
    for node in attentions:
        assert [len(value.shape) for value in node.inputs] == [4, 4, 4]
        assert len(node.outputs) == 1
        assert "q_num_heads" not in node.attributes
    assert not {"If", "Loop", "Scan"} & {node.op_type for node in nodes}
    assert {value.dtype for node in nodes for value in node.outputs if value.dtype} <= ALLOWED
    for node in nodes:
        if node.op_type in COMPUTING and node.outputs[0].dtype == ir.DataType.INT64:
            assert len(node.outputs[0].shape or ()) == 0 or node.outputs[0].shape.numpy() == (1,)


def test_attention_layout_of_targets_can_be_changed():
    """Each target has a default attention layout, and `attention_layout` replaces it.

    Heads that are an axis already are not transposed for the default layout.
    """
    x = (2, 5, 4, 8)
    for target, runtime in converter.TARGETS.items():
        if not runtime.has_operator("Attention", "float32", 23):
            continue
        for layout in (None, "3d", "4d"):
            options = {"target": target, "attention_layout": layout}
            export = converter.to_onnx(jax.nn.dot_product_attention, [x, x, x], **options)
            (node,) = (n for n in export.model.graph if n.op_type == "Attention")
            is_flat = layout == "3d" or (layout is None and target == "onnxruntime")
            assert ("q_num_heads" in node.attributes) == is_flat
    folded_heads = converter.to_onnx(lambda q: jax.nn.softmax(q @ q.mT) @ q, [(2, 4, 5, 8)])
    assert folded_heads.report.histogram.get("Transpose", 0) == 0


def test_limits_of_targets_are_named():
    message = "portable takes fixed sizes only: pass numbers for B of x"
    with pytest.raises(converter.SpecError, match=message):
        converter.to_onnx(jnp.sin, [("B", 3)], target="portable")
    with pytest.raises(converter.SpecError, match="opset must be 18 for portable, received 23"):
        converter.to_onnx(jnp.sin, [(2, 3)], target="portable", opset=23)
    assert converter.to_onnx(jnp.sin, [(2,)], target="portable").model.opset_imports[""] == 18


def test_the_zoo_accepts_every_target(tmp_path):
    for name in (*converter.TARGETS, "onnxruntime>=1.32", "web<1.32"):
        request = plan_files(zoo.info("vit_digits"), Options(target=name, batch=1, out=tmp_path))
        assert re.fullmatch(NAME, request.targets[0].name)
    for target in ("qnn", "onnxruntime>1.x", "onnxruntime<1.2"):
        with pytest.raises(BadRequest, match=f"^target {target} is not known: .*\\.$"):
            plan_files(zoo.info("vit_digits"), Options(target=target, out=tmp_path))


# ------------------------------------------------------------- everything that the standard allows

RNG = np.random.default_rng(3)
LONG = np.array([[2**31, -(2**62) - 1, 7], [-(2**63), 3, -1]])
EXPONENTS = np.array([5, 3, 200], np.uint8)
NORM = eqx.nn.GroupNorm(3, 12)
NORM = eqx.tree_at(lambda n: (n.weight, n.bias), NORM, (jnp.arange(12.0), jnp.arange(12.0) / 3))


def draw(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def attend(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


QKV = [draw(2, 3, n, 8, dtype=np.float64) for n in (5, 7, 7)]
ONE_OPERATOR = {
    "Attention": (attend, QKV, (23, 26)),
    "GroupNormalization": (jax.vmap(NORM), [draw(2, 12, 5, 7)], (21, 26)),
    "Swish": (lambda x: x * jax.nn.sigmoid(x), [draw(3, 5)], (24, 25, 26)),
    "ReduceProd": (lambda x: x.prod(1), [LONG], (17, 26)),
    "ReduceMax": (lambda x: x.max(0), [LONG], (17, 26)),
    "Mod": (lambda x: lax.rem(x, jnp.int64(-1)), [LONG], (17, 26)),
    "Pow": (lambda x, y: x**y, [draw(3), EXPONENTS], (17, 26)),
}
"""By operator: a function that becomes this operator alone, its inputs, and the opsets."""


@pytest.mark.each("name")
@pytest.mark.parametrize(
    ("name", "opset"), [(name, opset) for name, row in ONE_OPERATOR.items() for opset in row[2]]
)
def test_functions_become_one_standard_operator(name, opset):
    fn, inputs, _ = ONE_OPERATOR[name]
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, target="standard", opset=opset)
        assert export.report.histogram == {name: 1}
        model = ir.to_proto(export.model)
        onnx.checker.check_model(model, full_check=True)
        (actual,), expected = evaluate(model, inputs), np.asarray(fn(*map(jnp.asarray, inputs)))
    assert actual.dtype == expected.dtype
    if expected.dtype.kind == "f":
        rtol = 1e-12 if actual.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(actual, expected, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(actual, expected)


def test_the_deprecated_group_normalization_is_not_written():
    """Opset 18 has only the deprecated GroupNormalization, which scales groups and not channels."""
    export = converter.to_onnx(jax.vmap(NORM), [(2, 12, 5, 7)], target="standard", opset=18)
    assert "GroupNormalization" not in export.report.histogram
