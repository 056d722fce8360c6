"""Kernels that ONNX Runtime's CPU provider got after the oldest version that files are written for.

They were found by loading a file for each operator and dtype in 1.18 to 1.31. Dtypes without a
wider one are not listed and do not load: division of uint64 before 1.21; ArgMax of int64, and
cumulative products and norms of float64 before 1.20.
"""

from functools import partial

import numpy as np
import onnx_ir as ir

from converter.opsets import OPSETS
from converter.targets.casts import ModelWriter, inferred_dtypes
from converter.targets.target import Lag, lacks_operators

INTEGER_CONVERSIONS = {
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32"),
    **dict.fromkeys(("uint32", "uint64"), "int64"),
}
DIVISION_CONVERSIONS = {
    dtype: wider_dtype for dtype, wider_dtype in INTEGER_CONVERSIONS.items() if dtype != "uint64"
}
BYTE_CONVERSIONS = dict.fromkeys(("int8", "uint8"), "int32")


def replace_cosines(model: ir.Model) -> None:
    """Replace cosines of float64 by sines, in place.

    The result is 1 - 2 sin²(x / 2). Where its magnitude is below 0.5, because the terms cancel, it
    is sin(2 x) / (2 sin(x)), unless x is so large that 2 x may overflow. The divisions and
    multiplications by two are exact.
    """
    double, boolean = ir.DataType.DOUBLE, ir.DataType.BOOL
    cosines = [n for n in model.graph.all_nodes() if n.op_type == "Cos" and not n.domain]
    dtypes = inferred_dtypes(model) if cosines else {}
    pairs = [
        (node, x) for node in cosines if (x := node.inputs[0]) is not None and dtypes[x] == double
    ]
    if not pairs:
        return
    writer = ModelWriter(model)
    half, one, large = (writer.add_number(number, double) for number in (0.5, 1.0, 1e300))
    for node, x in pairs:
        emit = partial(writer.insert_before, node, dtype=double)
        emit_less = partial(writer.insert_before, node, "Less", dtype=boolean)
        half_sine, sine = emit("Sin", emit("Mul", x, half)), emit("Sin", x)
        square = emit("Mul", half_sine, half_sine)
        by_half_sine = emit("Add", emit("Neg", emit("Add", square, square)), one)
        by_double_sine = emit("Div", emit("Sin", emit("Add", x, x)), emit("Add", sine, sine))
        cancels, is_finite_double = (
            emit_less(emit("Abs", by_half_sine), half),
            emit_less(emit("Abs", x), large),
        )
        use_double_sine = writer.insert_before(
            node, "And", cancels, is_finite_double, dtype=boolean
        )
        (old_output,) = node.outputs
        new_node = ir.node(
            "Where", [use_double_sine, by_double_sine, by_half_sine], num_outputs=1, name=node.name
        )
        (new_output,) = new_node.outputs
        new_output.name, new_output.dtype, new_output.shape = (
            old_output.name,
            double,
            old_output.shape,
        )
        assert node.graph is not None
        ir.convenience.replace_nodes_and_values(
            node.graph, node, [node], [new_node], [old_output], [new_output]
        )


def propagate_nan(model: ir.Model) -> None:
    """Insert nodes that make both operands of a maximum or minimum of two floats NaN where one is,
    in place.

    Older versions return the other operand.
    """
    writer, dtypes = ModelWriter(model), inferred_dtypes(model)
    for node in list(model.graph.all_nodes()):
        operands = [value for value in node.inputs if value is not None]
        if node.op_type not in ("Max", "Min") or node.domain or len(operands) != 2:
            continue
        dtype = dtypes[operands[0]] or dtypes[operands[1]]
        if dtype is None or not dtype.is_floating_point():
            continue
        for index, (operand, other) in enumerate(zip(operands, operands[::-1], strict=True)):
            if not _is_number(other):
                is_nan = writer.insert_before(node, "IsNaN", other, dtype=ir.DataType.BOOL)
                selected = writer.insert_before(node, "Where", is_nan, other, operand, dtype=dtype)
                # The shape is not set, because it is the broadcast shape of both operands.
                selected.shape = None
                node.replace_input_with(index, selected)


def _is_number(value: ir.Value) -> bool:
    """Return True if a value is a constant of at most 1024 elements without NaN."""
    constant = value.const_value
    return constant is not None and constant.size <= 1024 and not np.isnan(constant.numpy()).any()


QUANTIZED_SINCE_23 = lacks_operators("QuantizeLinear", opsets=range(23, OPSETS.stop))

LAGS = (
    Lag("<1.31", {"Where": {"int8": "int32", "uint32": "int64"}}),
    Lag("<1.30", {"Trilu": {"int32": "int64"}}, model=replace_cosines),
    Lag("<1.26", {"TopK": {**BYTE_CONVERSIONS, "int16": "int32"}}),
    # Version 1.24 loads opsets 24 and 25, but does not have TensorScatter.
    Lag("<1.25", newest_opset=23),
    Lag("<1.24", dict.fromkeys(("Max", "Min"), BYTE_CONVERSIONS), lacks=(QUANTIZED_SINCE_23,)),
    # Version 1.23.0 loads opset 23, but its attention is wrong if several heads share their keys.
    Lag("<1.23.1", newest_opset=22),
    Lag(
        "<1.21",
        {
            **dict.fromkeys(("Add", "Sub", "Mul", "Equal"), INTEGER_CONVERSIONS),
            **dict.fromkeys(
                ("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), INTEGER_CONVERSIONS
            ),
            **{"Div": DIVISION_CONVERSIONS, "Neg": {"int16": "int32"}},
        },
        newest_opset=21,
    ),
    Lag("<1.20", {"ArgMin": BYTE_CONVERSIONS, "Trilu": {"bool": "int64"}}, model=propagate_nan),
)
