"""Each formula of the table of activations is compared with its ONNX operator at every edge."""

import jax.numpy as jnp
import pytest

import converter
from converter.fuse.spelling import DTYPES
from converter.fuse.user_recognisers import REGISTERED_FORMULAS
from converter.ir import ops
from converter.jax_versions import enable_x64
from converter.opsets import OPSETS
from tests.converter.operators.rows import ROWS, convert_row, differences

NAMES = [f"{i} {row.op}" for i, row in enumerate(ROWS)]
OPSET = 24
LEVELS = ("disabled", "all")


def test_every_activation_has_a_row():
    """Every elementwise operation of our own has a row, so that none is written uncompared."""
    ours = {op for op in ops.defined_ops() if op.domain == "ours" and op.elementwise}
    assert ours <= {row.op for row in ROWS}


@pytest.mark.each("row.op")
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
def test_operator_matches_its_formula(row):
    """The formula becomes its operator, whose results match JAX's."""
    assert convert_row(row, "float32", OPSET).graph.count(row.op)
    assert not differences(row, "float32", OPSET, LEVELS[1:])


@pytest.mark.full
@pytest.mark.parametrize("row", ROWS, ids=NAMES)
@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16", "float64"])
@pytest.mark.parametrize("strict", [False, True])
def test_operator_matches_its_formula_at_every_opset(row, dtype, strict):
    is_float64 = dtype == "float64"
    with enable_x64(is_float64):
        for opset in OPSETS:
            assert not differences(row, dtype, opset, LEVELS, strict)


def shrink(x, limit):
    """Shrink as a formula that keeps NaN; the operator ``Shrink`` returns zero for NaN."""
    return jnp.where(abs(x) <= limit, 0, x)


def test_wrong_row_is_detected():
    """A row whose formula and operator differ only for NaN is reported as different."""
    with converter.extensions():
        converter.recogniser("trial_shrink")(shrink)
        converter.rule("trial_shrink")(
            lambda b, x, *, limit: b.op("Shrink", x, lambd=limit, bias=0.0)
        )
        row = REGISTERED_FORMULAS[-1]
        export = convert_row(row, "float32", OPSET)
        assert export.report.histogram["Shrink"] == export.graph.count(row.op) > 1
        sentences = differences(row, "float32", OPSET, LEVELS[1:])
    assert any("trial_shrink(nan, {'limit': 0.25})" in sentence for sentence in sentences)
