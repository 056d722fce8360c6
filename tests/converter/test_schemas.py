"""Which opset brought bfloat16 to an operator, as ONNX itself says it; and what files do below."""

import re
from pathlib import Path

import jax.numpy as jnp
import onnx.defs
import pytest
from jax import lax

import converter
from converter.ir import ops
from converter.opsets import OPSETS
from converter.targets.schemas import BFLOAT16_SINCE, SINCE, operator

QUOTED = re.findall(
    r'"([A-Z][A-Za-z0-9]+)"',
    "".join(p.read_text() for p in (Path(converter.__file__).parent / "lower").glob("*.py")),
)
STANDARD = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
WRITTEN = {*QUOTED, *(op.operator for op in ops.stated())} & STANDARD


def takes_bfloat16(operator: str, opset: int) -> bool | None:
    """Whether the first operand may be that; None where there is no such operator yet."""
    if not onnx.defs.has(operator, opset, ""):
        return None
    schema = onnx.defs.get_schema(operator, opset)
    first = (schema.inputs or schema.outputs)[0].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    return "tensor(bfloat16)" in allowed.get(first, [first])


def test_the_table_is_that_of_onnx():
    found = {}
    for name in WRITTEN | BFLOAT16_SINCE.keys():
        takes = {opset: takes_bfloat16(name, opset) for opset in OPSETS}
        if False in takes.values() and True in takes.values():
            found[name] = min(opset for opset, ok in takes.items() if ok)
    assert found == BFLOAT16_SINCE


def test_newer_operators_are_those_of_onnx():
    """That of GroupNormalization which is not deprecated."""
    there = {op: min(o for o in OPSETS if onnx.defs.has(op, o, "")) for op in WRITTEN}
    newer = {op: opset for op, opset in there.items() if opset > OPSETS[0]}
    assert newer | {"GroupNormalization": 21} == SINCE


def test_what_is_fused_has_the_name_of_an_operator():
    ours = {operator(op) for op in ops.stated() if op.structure}
    assert ours <= {schema.name for schema in onnx.defs.get_all_schemas()}


WINDOW = {"window_dimensions": (1, 2), "window_strides": (1, 1), "padding": ((0, 0), (0, 1))}
FUNCTIONS = {
    **{
        op.__name__: op
        for op in (
            *(lax.acos, lax.acosh, lax.asin, lax.asinh, lax.atan, lax.atanh, lax.cos, lax.cosh),
            *(lax.round, lax.sin, lax.sinh, lax.tan, jnp.sort, jnp.var),
        )
    },
    "max_pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, **WINDOW),
    "sum_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, **WINDOW),
    "mean_pool": lambda x: lax.reduce_window(x, 0.0, lax.add, **WINDOW) / 2,
    "conv": lambda x: lax.conv(x[None, None], x[:2, :2][None, None], (1, 1), "SAME"),
    "conv_transpose": lambda x: lax.conv_transpose(x[None], x[:2, :, None], (2,), "VALID"),
    "top_k": lambda x: lax.top_k(x, 2)[0],
}


@pytest.mark.sampled(4, full=2)
@pytest.mark.parametrize("opset", (17, 21, 22, 26))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bfloat16_makes_a_valid_file(name, opset):
    """What an opset has no bfloat16 of, and ONNX Runtime no kernel, is computed in float32."""
    converter.to_onnx(FUNCTIONS[name], [((3, 4), "bfloat16")], opset=opset, verify=True)
