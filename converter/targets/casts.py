"""Dtypes that versions of a runtime have no kernel for, computed in one that they have.

The nodes are those of the ONNX model, so that it does not matter which rule wrote them. All is
exact: integers are computed in wider ones, and converting back wraps. uint64 becomes int64 bit for
bit, moved so that its order stays where that matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from converter.ir.names import Names

Casts: TypeAlias = Mapping[str, Mapping[str, str]]
"""By operator, the dtypes without a kernel, and those to compute in."""


ORDERED = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})

GIVEN = {
    **dict.fromkeys((*ORDERED, "Equal", "IsNaN", "IsInf"), ir.DataType.BOOL),
    **dict.fromkeys(("ArgMax", "ArgMin", "Shape", "Size", "NonZero"), ir.DataType.INT64),
    **dict.fromkeys(("MatMulInteger", "ConvInteger"), ir.DataType.INT32),
}
"""Operators that give one dtype, whatever they take."""

LIKE = {"Where": 1, "CastLike": 1, "OneHot": 2, "QuantizeLinear": 2, "DequantizeLinear": 1}
"""The operand whose dtype a result has, where that is not the first one."""

Dtypes: TypeAlias = dict[ir.Value | None, ir.DataType | None]


def inferred_dtypes(model: ir.Model) -> Dtypes:
    """Dtypes of all values: what a rule writes on the way to its results is not stamped."""
    dtypes: Dtypes = {}
    for node in model.graph.all_nodes():
        for value in node.inputs:
            if value not in dtypes and value is not None:
                tensor = value.const_value
                dtypes[value] = value.dtype or (None if tensor is None else tensor.dtype)
        for index, value in enumerate(node.outputs):
            dtypes[value] = value.dtype or _result_dtype(node, index, dtypes)
    return dtypes


def _result_dtype(node: ir.Node, index: int, dtypes: Dtypes) -> ir.DataType | None:
    if node.op_type in ("Cast", "BitCast"):
        return ir.DataType(node.attributes["to"].as_int())
    if node.op_type in GIVEN:
        return GIVEN[node.op_type]
    if node.op_type == "TopK" and index == 1:
        return ir.DataType.INT64
    like = LIKE.get(node.op_type, 0)
    return dtypes.get(node.inputs[like]) if like < len(node.inputs) else None


class ModelWriter:
    """Adds nodes around others, under names that are free."""

    def __init__(self, model: ir.Model) -> None:
        self._graph = model.graph

    @cached_property
    def _names(self) -> Names:
        named = [*ir.convenience.create_value_mapping(self._graph)]
        for node in self._graph.all_nodes():
            named += filter(None, (node.name, *(value.name for value in node.outputs)))
        return Names(named)

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """A constant."""
        name = self._names.take("number")
        tensor = ir.tensor(np.asarray(number, dtype.numpy()), name=name)
        value = ir.val(name, const_value=tensor)
        self._graph.register_initializer(value)
        return value

    def before(
        self,
        node: ir.Node,
        operator: str,
        *operands: ir.Value,
        dtype: ir.DataType,
        **fields: int,
    ) -> ir.Value:
        """The result of a new node in front of another, of the shape of its first operand."""
        made = ir.node(operator, operands, fields, num_outputs=1)
        (result,) = made.outputs
        result.name = made.name = self._names.take(f"{operands[0].name}_{operator.lower()}")
        result.dtype, result.shape = dtype, operands[0].shape
        node.prepend(made)
        return result

    def cast_back(
        self, node: ir.Node, output: ir.Value, narrow: ir.DataType, wide: ir.DataType
    ) -> ir.Value:
        """Let a node give a wider dtype, and its readers what they had."""
        assert node.graph is not None
        made = ir.node("Cast", [output], {"to": int(narrow)}, num_outputs=1)
        (result,) = made.outputs
        made.name = self._names.take(f"{output.name}_cast")
        result.name, output.name = output.name, self._names.take(f"{output.name}_wide")
        result.dtype, result.shape, output.dtype = narrow, output.shape, wide
        node.append(made)
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        made.replace_input_with(0, output)
        return result


def avoid_missing_kernels(model: ir.Model, casts: Casts) -> None:
    """Put conversions around the nodes that there is no kernel for, in place."""
    there = {node.op_type for node in model.graph.all_nodes()}
    if not there & casts.keys():
        return
    writer, dtypes = ModelWriter(model), inferred_dtypes(model)
    for node in list(model.graph.all_nodes()):
        detours = {} if node.domain else casts.get(node.op_type, {})
        operand_dtypes = [
            dtype for v in node.inputs if detours and (dtype := dtypes.get(v)) is not None
        ]
        if narrow := next(
            (dtype for dtype in operand_dtypes if dtype.numpy().name in detours), None
        ):
            wide = ir.DataType.from_numpy(np.dtype(detours[narrow.numpy().name]))
            _compute_in(node, narrow, wide, writer, dtypes)


def _compute_in(
    node: ir.Node, narrow: ir.DataType, wide: ir.DataType, writer: ModelWriter, dtypes: Dtypes
) -> None:
    for index, value in enumerate(node.inputs):
        if value is None or dtypes.get(value) != narrow:
            continue
        cast = writer.before(node, "Cast", value, dtype=wide, to=int(wide))
        if narrow == ir.DataType.UINT64 and node.op_type in ORDERED:
            lowest = writer.number(np.iinfo(np.int64).min, wide)
            cast = writer.before(node, "Add", cast, lowest, dtype=wide)
        node.replace_input_with(index, cast)
    for output in list(node.outputs):
        if dtypes.get(output) == narrow:
            dtypes[writer.cast_back(node, output, narrow, wide)] = narrow
            dtypes[output] = wide
