"""What is recognised means the same in JAX and in ONNX Runtime, under every transformation."""

from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest

import converter
from converter.ir.evaluation import evaluate
from tests.conformance import TOLERANCE, Case
from tests.programs.spellings import FAMILIES, SPELLINGS, WIDE, floats
from tests.programs.ways import WRAPS, wrapped

every_case = pytest.mark.parametrize("case", SPELLINGS, ids=lambda case: case.name)
every_wrap = pytest.mark.parametrize("how", ("plain", *WRAPS))


def assert_recognised(case: Case, how: str, dtype: Any = jnp.float32, **options: Any) -> None:
    """The structure is found, means the same in JAX, and ONNX Runtime agrees."""
    fused, runs = dict(case.ops), dtype != jnp.float16 or not case.tags >= WIDE
    case = case if how == "plain" else wrapped(case, how)
    rng = np.random.default_rng(7)
    inputs = [jnp.asarray(rng.standard_normal(s), dtype) for s in case.specs]
    specs = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in inputs]
    export = converter.to_onnx(case.fn, specs, **options)
    assert export.report.fused == fused, f"{export.report}\n{export.graph}"
    wide = case.fn(*(x if runs else x.astype(jnp.float32) for x in inputs))
    results = [y if runs else y.astype(dtype) for y in jax.tree.leaves(wide)]
    tolerance = TOLERANCE[jnp.dtype(dtype).name]
    if runs:
        for got, want in zip(evaluate(export.graph, inputs), results, strict=True):
            a, b = (np.asarray(y, np.float64) for y in (got, want))
            assert a.shape == b.shape
            assert np.abs(a - b).max() <= tolerance * np.abs(b).max()
    onnx.checker.check_model(ir.to_proto(export.model), full_check=True)
    # What JAX cannot run here has no graph to ask how far rounding goes.
    judged = export if runs else export.model
    for name, errors in converter.check(judged, lambda *_: results, inputs).items():
        assert errors.max_rel <= tolerance, f"{name}: {errors}\n{export.graph}"


@pytest.mark.each("case", "how")
@every_wrap
@every_case
def test_recognised(case, how):
    assert_recognised(case, how)


@pytest.mark.each("dtype")
@every_wrap
@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16], ids=["f16", "bf16"])
@every_case
def test_recognised_in_low_precision(case, dtype, how):
    low = replace(case, fn=floats(case.fn, lambda x: x.astype(dtype)))
    assert_recognised(low, how, dtype)


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", [17, 18, 20, 24, 26])
@every_case
def test_opsets(case, opset):
    since = {"Attention": 23, "RotaryEmbedding": 23, "RMSNormalization": 23, "Gelu": 20}
    ops = {op: n for op, n in case.ops.items() if since.get(op, 17) <= opset}
    assert_recognised(replace(case, ops=ops), "vmap1", opset=opset)


@pytest.mark.each()
@every_wrap
@pytest.mark.parametrize("case", FAMILIES["attention"], ids=lambda case: case.name)
def test_three_dimensional_layout(case, how):
    assert_recognised(case, how, attention_layout="3d")


@pytest.mark.each()
@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("how", ["vmap0", "vmap1", "vmap-1", "nested"])
@every_case
def test_axes_of_one(case, how, opset):
    """An axis of one is one of many, but that a reshape may stand for a transposition."""
    case = wrapped(case, how)
    axis = 0 if how == "nested" else int(how.removeprefix("vmap"))
    reports = []
    for size in (3, 1):
        sized = [list(shape) for shape in case.specs]
        for shape in sized:
            shape[axis] = size
        reports.append(converter.to_onnx(case.fn, sized, opset=opset).report)
    many, one = reports
    assert one.fused == many.fused
    for name, count in one.histogram.items():
        assert name == "Reshape" or count <= many.histogram.get(name, 0), name
