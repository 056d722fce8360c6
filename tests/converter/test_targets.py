"""Files for the standard alone: every operand is of a dtype that ONNX's operator takes."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as ir
import pytest
from jax import lax
from onnx.reference import ReferenceEvaluator

import converter

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")

ARITHMETIC = {
    "add": lambda x, y: x + y,
    "max": jnp.maximum,
    "less": lambda x, y: x < y,
    "sum": lambda x, y: x.sum(0, dtype=x.dtype),
    "prod": lambda x, y: x.prod(0, dtype=x.dtype),
    "reduce_max": lambda x, y: x.max(1),
    "reduce_min": lambda x, y: x.min(1),
    "argmax": lambda x, y: x.argmax(1),
    "where": lambda x, y: jnp.where(x > y, x, y),
    "pad": lambda x, y: jnp.pad(x, 1),
    "cumsum": lambda x, y: x.cumsum(1, dtype=x.dtype),
    "matmul": lambda x, y: x @ y.T,
    "sort": lambda x, y: jnp.sort(x, 1),
    "scatter": lambda x, y: x.at[1].add(y[0]),
    "negative": lambda x, y: -x,
    "sign": lambda x, y: jnp.sign(x),
}
SMOOTH = {
    "erf": lambda x, y: lax.erf(x),
    "sigmoid": lambda x, y: jax.nn.sigmoid(x),
    "atan": lambda x, y: jnp.arctan(x),
    "sinh": lambda x, y: jnp.sinh(x),
    "pool": lambda x, y: lax.reduce_window(x, 0.0, lax.add, (1, 2), (1, 1), "VALID") / 2,
    "conv": lambda x, y: jnp.convolve(x[0], y[0, :2]),
}


def untaken(model: ir.Model) -> Iterator[str]:
    """Every operand and result that the operator's type constraints do not allow."""
    for node in model.graph.all_nodes():
        schema = onnx.defs.get_schema(node.op_type, model.opset_imports[""], node.domain)
        allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
        for formal, values in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
            for i, value in enumerate(values):
                kind = formal[min(i, len(formal) - 1)].type_str
                if value is None or value.dtype is None:
                    continue
                text = {"FLOAT": "float", "DOUBLE": "double"}.get(value.dtype.name)
                name = f"tensor({text or value.dtype.name.lower()})"
                if name not in allowed.get(kind, [kind]):
                    yield f"{node.op_type} of {name}"


def inputs(dtype):
    rng = np.random.default_rng(1)
    if dtype == "bool":
        return [rng.random((3, 4)) > 0.5 for _ in range(2)]
    return [rng.integers(0 if dtype[0] == "u" else -5, 9, (3, 4)).astype(dtype) for _ in range(2)]


@pytest.mark.full
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
def test_dtypes(dtype):
    """As one function, so that there is one conversion for each dtype and opset."""
    table = ARITHMETIC | (SMOOTH if dtype in FLOATS else {})
    if dtype[0] == "u":
        table = {k: v for k, v in table.items() if k != "sign"}
    given = inputs(dtype)

    def everything(x, y):
        return {name: fn(x, y) for name, fn in table.items()}

    with jax.enable_x64(True):
        for opset in (17, 23):
            export = converter.to_onnx(everything, given, opset=opset, target="standard")
            assert not list(untaken(export.model))
            proto = ir.to_proto(export.model)
            onnx.checker.check_model(proto, full_check=True)
            feeds = dict(zip("xy", given, strict=True))
            wanted = everything(*map(jnp.asarray, given))
            run = ReferenceEvaluator(proto)
            for name, got in zip(run.output_names, run.run(None, feeds), strict=True):
                close = {"rtol": 2e-3 if dtype == "float16" else 1e-5, "atol": 1e-5}
                np.testing.assert_allclose(got, wanted[name], err_msg=name, **close)


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
    with pytest.raises(converter.SpecError, match="target must be onnxruntime or standard"):
        converter.to_onnx(fn, spec, target="tensorrt")
