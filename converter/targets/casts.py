"""Insert conversions around ONNX nodes whose dtype some versions of a runtime do not support.

The pass works on the nodes of the ONNX model, whichever rule emitted them. All conversions are
exact: integers are computed in wider ones, and the conversion back wraps. uint64 becomes int64 bit
by bit, shifted where the order of numbers matters.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from converter.ir.names import Names

Casts: TypeAlias = Mapping[str, Mapping[str, str]]
"""By operator, the unsupported dtypes with the dtypes to compute in."""


ORDER_COMPARISONS = frozenset({"Less", "LessOrEqual", "Greater", "GreaterOrEqual"})
"""Operators whose result depends on the order of numbers."""

FIXED_RESULT_DTYPES = {
    **dict.fromkeys((*ORDER_COMPARISONS, "Equal", "IsNaN", "IsInf"), ir.DataType.BOOL),
    **dict.fromkeys(("ArgMax", "ArgMin", "Shape", "Size", "NonZero"), ir.DataType.INT64),
    **dict.fromkeys(("MatMulInteger", "ConvInteger"), ir.DataType.INT32),
}
"""Operators with a result of one dtype, whatever their operands are."""

RESULT_DTYPE_OPERANDS = {
    "Where": 1,
    "CastLike": 1,
    "OneHot": 2,
    "QuantizeLinear": 2,
    "DequantizeLinear": 1,
}
"""Index of the operand that has the dtype of the result, if it is not the first one."""

Dtypes: TypeAlias = dict[ir.Value | None, ir.DataType | None]


def inferred_dtypes(model: ir.Model) -> Dtypes:
    """Return the dtypes of all values that nodes of a model read or compute, by value; None for a
    value whose dtype is not known.

    Intermediate values that a rule emitted have no dtype in the model. Theirs are inferred from the
    operator and its operands.
    """
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
    """Return the dtype of a result of a node, or None if it is not known.

    Arguments:
        node: the node.
        index: position of the result among the results of the node.
        dtypes: the dtypes of its operands.
    """
    if node.op_type in ("Cast", "BitCast"):
        return ir.DataType(node.attributes["to"].as_int())
    if node.op_type in FIXED_RESULT_DTYPES:
        return FIXED_RESULT_DTYPES[node.op_type]
    if node.op_type == "TopK" and index == 1:
        return ir.DataType.INT64
    operand = RESULT_DTYPE_OPERANDS.get(node.op_type, 0)
    return dtypes.get(node.inputs[operand]) if operand < len(node.inputs) else None


class ModelWriter:
    """Writer that inserts nodes and constants into an ONNX model under unused names."""

    def __init__(self, model: ir.Model) -> None:
        self._graph = model.graph

    @cached_property
    def _names(self) -> Names:
        """The names in use."""
        named = [*ir.convenience.create_value_mapping(self._graph)]
        for node in self._graph.all_nodes():
            named += filter(None, (node.name, *(value.name for value in node.outputs)))
        return Names(named)

    def add_number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """Return a new initializer that is a scalar of this dtype."""
        name = self._names.take("number")
        tensor = ir.tensor(np.asarray(number, dtype.numpy()), name=name)
        value = ir.val(name, const_value=tensor)
        self._graph.register_initializer(value)
        return value

    def insert_before(
        self,
        node: ir.Node,
        operator: str,
        *operands: ir.Value,
        dtype: ir.DataType,
        **attributes: int,
    ) -> ir.Value:
        """Return the result of a new node, which is inserted before another node.

        Arguments:
            node: the node to insert before.
            operator: the ONNX operator of the new node.
            operands: the operands of the new node. The result gets the shape of the first one.
            dtype: the dtype of the result.
            attributes: attributes of the new node.
        """
        new_node = ir.node(operator, operands, attributes, num_outputs=1)
        (result,) = new_node.outputs
        result.name = new_node.name = self._names.take(f"{operands[0].name}_{operator.lower()}")
        result.dtype, result.shape = dtype, operands[0].shape
        node.prepend(new_node)
        return result

    def cast_back(
        self,
        node: ir.Node,
        output: ir.Value,
        unsupported_dtype: ir.DataType,
        wider_dtype: ir.DataType,
    ) -> ir.Value:
        """Give an output of a node a wider dtype, and return the result of a new ``Cast`` back to
        its previous dtype, which all its readers get instead.

        The result of the ``Cast`` gets the name of the output and replaces it also as an output of
        the model.

        Arguments:
            node: the node.
            output: the output of the node. It gets a new name.
            unsupported_dtype: the dtype of the output so far, which the result has.
            wider_dtype: the dtype in which the node computes from now on.
        """
        assert node.graph is not None
        cast_node = ir.node("Cast", [output], {"to": int(unsupported_dtype)}, num_outputs=1)
        (result,) = cast_node.outputs
        cast_node.name = self._names.take(f"{output.name}_cast")
        result.name, output.name = output.name, self._names.take(f"{output.name}_wide")
        result.dtype, result.shape, output.dtype = unsupported_dtype, output.shape, wider_dtype
        node.append(cast_node)
        ir.convenience.replace_all_uses_with(output, result, replace_graph_outputs=True)
        cast_node.replace_input_with(0, output)
        return result


def avoid_missing_kernels(model: ir.Model, casts: Casts) -> None:
    """Insert conversions around the nodes for whose dtype there is no kernel, in place.

    ``casts`` maps each operator to its unsupported dtypes, and each of these dtypes to the dtype in
    which the node is computed instead. The first operand of a node with an unsupported dtype
    determines the conversion. Operators of other domains than ONNX's are not changed.
    """
    present = {node.op_type for node in model.graph.all_nodes()}
    if not present & casts.keys():
        return
    writer, dtypes = ModelWriter(model), inferred_dtypes(model)
    for node in list(model.graph.all_nodes()):
        conversions = {} if node.domain else casts.get(node.op_type, {})
        operand_dtypes = [
            dtype for v in node.inputs if conversions and (dtype := dtypes.get(v)) is not None
        ]
        if unsupported_dtype := next(
            (dtype for dtype in operand_dtypes if dtype.numpy().name in conversions), None
        ):
            supported_dtype = ir.DataType.from_numpy(
                np.dtype(conversions[unsupported_dtype.numpy().name])
            )
            _convert_around(node, unsupported_dtype, supported_dtype, writer, dtypes)


def _convert_around(
    node: ir.Node,
    unsupported_dtype: ir.DataType,
    supported_dtype: ir.DataType,
    writer: ModelWriter,
    dtypes: Dtypes,
) -> None:
    """Convert all operands of a node that have an unsupported dtype to a supported one, and the
    results of that dtype back, in place.

    uint64 is shifted by 2**63 if the node compares the order of numbers. The dtypes of new values
    are added to ``dtypes``.
    """
    for index, value in enumerate(node.inputs):
        if value is None or dtypes.get(value) != unsupported_dtype:
            continue
        cast = writer.insert_before(
            node, "Cast", value, dtype=supported_dtype, to=int(supported_dtype)
        )
        if unsupported_dtype == ir.DataType.UINT64 and node.op_type in ORDER_COMPARISONS:
            lowest = writer.add_number(np.iinfo(np.int64).min, supported_dtype)
            cast = writer.insert_before(node, "Add", cast, lowest, dtype=supported_dtype)
        node.replace_input_with(index, cast)
    for output in list(node.outputs):
        if dtypes.get(output) == unsupported_dtype:
            dtypes[writer.cast_back(node, output, unsupported_dtype, supported_dtype)] = (
                unsupported_dtype
            )
            dtypes[output] = supported_dtype
