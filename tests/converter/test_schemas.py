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
from converter.targets.schemas import BFLOAT16_SINCE, SINCE
from tests.converter.test_rules import EXAMPLES, WINDOW, X

QUOTED = re.findall(
    r'"([A-Z][A-Za-z0-9]+)"',
    "".join(p.read_text() for p in (Path(converter.__file__).parent / "lower").glob("*.py")),
)
STANDARD = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
WRITTEN = {*QUOTED, *(op.operator for op in ops.defined_ops())} & STANDARD


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
    known = {op: opset for op, opset in SINCE.items() if opset <= onnx.defs.onnx_opset_version()}
    assert newer | {"GroupNormalization": 21} == known


OTHERS = ("approx_top_k", "top_k", "bitcast_convert_type", "clamp", "pad")
"""What chooses among equals as it likes, and what is written for float32 alone."""

FUNCTIONS = {
    **{n: fn for n, (fn, specs) in EXAMPLES.items() if specs in ([X], [X, X]) and n not in OTHERS},
    "mean_pool": lambda x: lax.reduce_window_sum_p.bind(x, **WINDOW) / 2,
    "conv_transpose": lambda x: lax.conv_transpose(x[None], x[:2, :, None], (2,), "VALID"),
    "top_k": lambda x: lax.top_k(x, 2)[0],
    "var": jnp.var,
}


@pytest.mark.each("opset")
@pytest.mark.parametrize("opset", (17, 21, 22, 26))
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bfloat16_makes_a_valid_file(name, opset):
    """What an opset has no bfloat16 of, and ONNX Runtime no kernel, is computed in float32."""
    if name in ("scatter-max", "scatter-min") and opset < 18:
        pytest.skip("ScatterND has these from opset 18 on")
    fn = FUNCTIONS[name]
    count = len(EXAMPLES[name][1]) if name in EXAMPLES else 1
    converter.to_onnx(fn, [(X, "bfloat16")] * count, opset=opset, verify=True)
