"""Tables of opsets, compared with ONNX's schemas, and files in bfloat16 below these opsets."""

import re
from pathlib import Path

import jax.numpy as jnp
import onnx.defs
import pytest
from jax import lax

import converter
from converter.ir import ops
from converter.opsets import OPSETS
from converter.targets.schemas import BFLOAT16_SINCE, SINCE
from tests.converter.test_rules import EXAMPLES, WINDOW, X

QUOTED = re.findall(
    r'"([A-Z][A-Za-z0-9]+)"',
    "".join(p.read_text() for p in (Path(converter.__file__).parent / "lower").glob("*.py")),
)
STANDARD = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
WRITTEN = {*QUOTED, *(op.operator for op in ops.defined_ops())} & STANDARD


def takes_bfloat16(operator: str, opset: int) -> bool | None:
    """Return whether the first operand of an operator may be bfloat16.

    Return None if the opset does not have the operator.
    """
    if not onnx.defs.has(operator, opset, ""):
        return None
    schema = onnx.defs.get_schema(operator, opset)
    first = (schema.inputs or schema.outputs)[0].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return "tensor(bfloat16)" in allowed.get(first, [first])


def test_first_opsets_of_bfloat16_agree_with_onnx():
    first_opsets = {}
    for name in WRITTEN | BFLOAT16_SINCE.keys():
        is_allowed = {opset: takes_bfloat16(name, opset) for opset in OPSETS}
        if False in is_allowed.values() and True in is_allowed.values():
            first_opsets[name] = min(
                opset for opset, is_allowed_there in is_allowed.items() if is_allowed_there
            )
    assert first_opsets == BFLOAT16_SINCE


def test_first_opsets_of_operators_agree_with_onnx():
    """The first opset of each operator agrees with ONNX's schemas.

    GroupNormalization counts from opset 21 on, because its older version is deprecated.
    """
    first_opset = {op: min(o for o in OPSETS if onnx.defs.has(op, o, "")) for op in WRITTEN}
    newer = {op: opset for op, opset in first_opset.items() if opset > OPSETS[0]}
    known = {op: opset for op, opset in SINCE.items() if opset <= onnx.defs.onnx_opset_version()}
    assert newer | {"GroupNormalization": 21} == known


EXCLUDED = ("approx_top_k", "top_k", "bitcast_convert_type", "clamp", "pad")
"""Primitives whose examples are left out: their order of equals is open, or they need float32."""

FUNCTIONS = {
    **{
        n: fn for n, (fn, specs) in EXAMPLES.items() if specs in ([X], [X, X]) and n not in EXCLUDED
    },
    "mean_pool": lambda x: lax.reduce_window_sum_p.bind(x, **WINDOW) / 2,
    "conv_transpose": lambda x: lax.conv_transpose(x[None], x[:2, :, None], (2,), "VALID"),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "var": jnp.var,
}


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", (17, 21, 22, 26))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_files_in_bfloat16_are_valid(name, opset):
    """An operator that has no bfloat16 at an opset, or no kernel for it, is computed in float32."""
    if name in ("scatter-max", "scatter-min") and opset < 18:
        pytest.skip("ScatterND has minima and maxima from opset 18 on")
    fn = FUNCTIONS[name]
    count = len(EXAMPLES[name][1]) if name in EXAMPLES else 1
    converter.to_onnx(fn, [(X, "bfloat16")] * count, opset=opset, verify=True)
