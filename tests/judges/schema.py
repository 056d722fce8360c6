"""Does every node take and give types that its operator's schema has? By the standard's own tables.

`onnx.checker` looks at attributes and numbers of operands, and infers shapes; it lets a node pass
whose operands have types that the operator was never defined for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import onnx
import onnx_ir as ir
from onnx_ir.passes import common


def violations(model: ir.Model) -> list[str]:
    """What the schemas do not allow, a line for each."""
    model = common.ShapeInferencePass()(ir.from_proto(ir.to_proto(model))).model
    opset = model.opset_imports[""]
    return [line for node in model.graph.all_nodes() for line in _of_node(node, opset)]


def _of_node(node: ir.Node, opset: int) -> Iterator[str]:
    schema = onnx.defs.get_schema(node.op_type, opset)
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    found: dict[str, str] = {}
    for formals, actuals in ((schema.inputs, node.inputs), (schema.outputs, node.outputs)):
        for formal, value in _pairs(formals, actuals):
            told = _type(value)
            if told is None:
                continue
            if told not in allowed.get(formal.type_str, {formal.type_str}):
                yield f"{node.op_type} {node.name}: {formal.name} may not be {told}"
            elif formal.is_homogeneous and found.setdefault(formal.type_str, told) != told:
                yield f"{node.op_type} {node.name}: {formal.name} is {told}, not the others' type"


def _pairs(
    formals: Sequence[onnx.defs.OpSchema.FormalParameter], actuals: Sequence[ir.Value | None]
) -> Iterator[tuple[onnx.defs.OpSchema.FormalParameter, ir.Value]]:
    """The last parameter of a schema may stand for many."""
    for index, value in enumerate(actuals):
        if value is not None:
            yield formals[min(index, len(formals) - 1)], value


def _type(value: ir.Value) -> str | None:
    """As schemas write it: `tensor(float16)`."""
    if value.dtype is None:
        return None
    return f"tensor({onnx.TensorProto.DataType.Name(value.dtype.value).lower()})"
