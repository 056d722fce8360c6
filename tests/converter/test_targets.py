"""Files for one runtime or another: what each takes, and that OpenVINO computes what JAX does."""

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
from tests.converter.test_edges import BINARY, UNARY, taken
from tests.converter.test_every_operation import CHOOSING, SUMMING, known, matrix
from tests.judges.evaluator import evaluate
from tests.judges.runtimes import Apart
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
ALONE = {name: {**CHOOSING, **SUMMING, **UNARY}[name] for name in NAMES}
PAIRS = {name: BINARY[name] for name in ("add", "max", "lt")}


@pytest.mark.full
@pytest.mark.parametrize(
    ("target", "dtype"),
    [
        *(("standard", dtype) for dtype in (*INTEGERS, *FLOATS)),
        *(("openvino", d) for d in ("int8", "uint8", "int32", "uint32", "float16", "float32")),
    ],
)
def test_dtypes(target, dtype):
    """As one function, so that there is one conversion for each dtype and opset.

    Products of integers beyond 8 bits are not right in OpenVINO in a file for ONNX Runtime.
    """
    given = [x := matrix(dtype, small=True), x[::-1, ::-1].copy()]
    with jax.enable_x64(target == "standard"):
        alone, pairs = list(known(ALONE, x).values()), list(taken(PAIRS, *given).values())

        def fn(x, y):
            return [f(x) for f in alone], [f(x, y) for f in pairs]

        wanted = jax.tree.leaves(fn(*map(jnp.asarray, given)))
        for opset in (17, 23):
            model = ir.to_proto(converter.to_onnx(fn, given, opset=opset, target=target).model)
            onnx.checker.check_model(model, full_check=True)
            if target == "standard":
                found = evaluate(model, given)
            else:
                with closing(Apart("openvino")) as run:
                    found = run(model.SerializeToString(), given)
            assert not isinstance(found, BaseException), found
            for got, want in zip(found, wanted, strict=True):
                rtol = 2e-3 if got.dtype == np.float16 else 1e-5
                np.testing.assert_allclose(got, want, rtol=rtol, atol=1e-5)


def test_what_only_a_runtime_needs_is_left_out():
    def fn(x, short, long):
        return lax.erf(x), jnp.maximum(short, 1), long.max(1)

    with jax.enable_x64(True):
        spec = [((3, 4), dtype) for dtype in ("float64", "int16", "int64")]
        ours = converter.to_onnx(fn, spec).report.histogram
        theirs = converter.to_onnx(fn, spec, target="standard").report.histogram
    assert theirs == {"Erf": 1, "Max": 1, "ReduceMax": 1}
    assert "Erf" not in ours
    assert ours["Cast"] == 2
    assert ours["TopK"] == 1


@pytest.mark.each("target")
@pytest.mark.parametrize("size", [(96, 128), None], ids=["fixed", "open"])
@pytest.mark.parametrize("target", ["tensorrt", "openvino", "web"])
def test_what_devices_take(target, size):
    """Attention with an axis of heads and one output, and integers of 64 bits for places alone."""
    model = abstract(zoo.info("dinov3_vits16").config)
    export = convert_model(model, 23, Signature(size, None), target=target)
    ir.passes.common.ShapeInferencePass()(export.model)  # lengths are computed without a dtype
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


def test_a_target_has_a_layout_that_can_be_changed():
    """By default heads that were side by side stay so, and others are not turned for it."""
    x = (2, 5, 4, 8)
    for target, runtime in converter.TARGETS.items():
        if not runtime.takes("Attention", "float32", 23):
            continue
        for layout in (None, "3d", "4d"):
            how = {"target": target, "attention_layout": layout}
            found = converter.to_onnx(jax.nn.dot_product_attention, [x, x, x], **how)
            (node,) = (n for n in found.model.graph if n.op_type == "Attention")
            flat = layout == "3d" or (layout is None and target == "onnxruntime")
            assert ("q_num_heads" in node.attributes) == flat
    there = converter.to_onnx(lambda q: jax.nn.softmax(q @ q.mT) @ q, [(2, 4, 5, 8)])
    assert there.report.histogram.get("Transpose", 0) == 0


def test_what_a_target_takes_is_said():
    said = "portable takes fixed sizes only: pass numbers for B of x"
    with pytest.raises(converter.SpecError, match=said):
        converter.to_onnx(jnp.sin, [("B", 3)], target="portable")
    with pytest.raises(converter.SpecError, match="opset must be 18 for portable, received 23"):
        converter.to_onnx(jnp.sin, [(2, 3)], target="portable", opset=23)
    assert converter.to_onnx(jnp.sin, [(2,)], target="portable").model.opset_imports[""] == 18


def test_the_zoo_takes_every_target(tmp_path):
    for name in (*converter.TARGETS, "onnxruntime>=1.32", "web<1.32"):
        request = plan_files(zoo.info("vit_digits"), Options(target=name, batch=1, out=tmp_path))
        assert re.fullmatch(NAME, request.targets[0].name)
    for target in ("qnn", "onnxruntime>1.x", "onnxruntime<1.2"):
        with pytest.raises(BadRequest, match=f"^target {target} is not known: .*\\.$"):
            plan_files(zoo.info("vit_digits"), Options(target=target, out=tmp_path))


# ------------------------------------------------------------------- all that the standard defines

RNG = np.random.default_rng(3)
LONG = np.array([[2**31, -(2**62) - 1, 7], [-(2**63), 3, -1]])
BYTES = np.array([5, 3, 200], np.uint8)
NORM = eqx.nn.GroupNorm(3, 12)
NORM = eqx.tree_at(lambda n: (n.weight, n.bias), NORM, (jnp.arange(12.0), jnp.arange(12.0) / 3))


def draw(*shape, dtype=np.float32):
    return RNG.normal(size=shape).astype(dtype)


def attend(q, k, v):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) / np.sqrt(q.shape[-1])
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores), v)


QKV = [draw(2, 3, n, 8, dtype=np.float64) for n in (5, 7, 7)]
ONE = {
    "Attention": (attend, QKV, (23, 26)),
    "GroupNormalization": (jax.vmap(NORM), [draw(2, 12, 5, 7)], (21, 26)),
    "Swish": (lambda x: x * jax.nn.sigmoid(x), [draw(3, 5)], (24, 25, 26)),
    "ReduceProd": (lambda x: x.prod(1), [LONG], (17, 26)),
    "ReduceMax": (lambda x: x.max(0), [LONG], (17, 26)),
    "Mod": (lambda x: lax.rem(x, jnp.int64(-1)), [LONG], (17, 26)),
    "Pow": (lambda x, y: x**y, [draw(3), BYTES], (17, 26)),
}
"""What is called in what way, by the one operator that it becomes."""


@pytest.mark.each("name")
@pytest.mark.parametrize(
    ("name", "opset"), [(name, opset) for name, row in ONE.items() for opset in row[2]]
)
def test_one_operator(name, opset):
    fn, inputs, _ = ONE[name]
    with jax.enable_x64(True):
        export = converter.to_onnx(fn, inputs, target="standard", opset=opset)
        assert export.report.histogram == {name: 1}
        model = ir.to_proto(export.model)
        onnx.checker.check_model(model, full_check=True)
        (got,), wanted = evaluate(model, inputs), np.asarray(fn(*map(jnp.asarray, inputs)))
    assert got.dtype == wanted.dtype
    if wanted.dtype.kind == "f":
        rtol = 1e-12 if got.dtype == np.float64 else 2e-5
        np.testing.assert_allclose(got, wanted, rtol=rtol, atol=1e-6)
    else:
        np.testing.assert_array_equal(got, wanted)


def test_a_scale_for_each_group_is_not_written():
    """The GroupNormalization of opset 18 is deprecated: it scales groups, not channels."""
    export = converter.to_onnx(jax.vmap(NORM), [(2, 12, 5, 7)], target="standard", opset=18)
    assert "GroupNormalization" not in export.report.histogram
