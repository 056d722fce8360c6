"""What came to ONNX Runtime's CPU after the oldest version that files are written for.

Found by loading a file for each operator and dtype in 1.18 to 1.31. What has no wider dtype is not
here, and does not load: quotients of uint64 before 1.21; places of the largest of int64, and
products along axes and norms of float64 before 1.20.
"""

from functools import partial

import numpy as np
import onnx_ir as ir

from converter.opsets import OPSETS
from converter.targets.casts import ModelWriter, inferred_dtypes
from converter.targets.target import Lag, lack

WORDS = {
    **dict.fromkeys(("int8", "int16", "uint8", "uint16"), "int32"),
    **dict.fromkeys(("uint32", "uint64"), "int64"),
}
DIVIDED = {dtype: wide for dtype, wide in WORDS.items() if dtype != "uint64"}
BYTES = dict.fromkeys(("int8", "uint8"), "int32")


def without_cosines(model: ir.Model) -> None:
    """Write sines for cosines of float64: 1 - 2 sin²(x / 2), and sin(2 x) / (2 sin(x)) where that
    cancels. To halve and to double are exact, unless the double is infinite."""
    double, truth = ir.DataType.DOUBLE, ir.DataType.BOOL
    named = [n for n in model.graph.all_nodes() if n.op_type == "Cos" and not n.domain]
    dtypes = inferred_dtypes(model) if named else {}
    pairs = [
        (node, x) for node in named if (x := node.inputs[0]) is not None and dtypes[x] == double
    ]
    if not pairs:
        return
    writer = ModelWriter(model)
    half, one, large = (writer.number(number, double) for number in (0.5, 1.0, 1e300))
    for node, x in pairs:
        write = partial(writer.before, node, dtype=double)
        less = partial(writer.before, node, "Less", dtype=truth)
        half_sine, sine = write("Sin", write("Mul", x, half)), write("Sin", x)
        square = write("Mul", half_sine, half_sine)
        rest = write("Add", write("Neg", write("Add", square, square)), one)
        near = write("Div", write("Sin", write("Add", x, x)), write("Add", sine, sine))
        cancels, doubles = less(write("Abs", rest), half), less(write("Abs", x), large)
        chosen = writer.before(node, "And", cancels, doubles, dtype=truth)
        (old,) = node.outputs
        made = ir.node("Where", [chosen, near, rest], num_outputs=1, name=node.name)
        (new,) = made.outputs
        new.name, new.dtype, new.shape = old.name, double, old.shape
        assert node.graph is not None
        ir.convenience.replace_nodes_and_values(node.graph, node, [node], [made], [old], [new])


def with_nan(model: ir.Model) -> None:
    """Make both operands of a maximum or minimum NaN where one is: older ones give the other."""
    writer, dtypes = ModelWriter(model), inferred_dtypes(model)
    for node in list(model.graph.all_nodes()):
        operands = [value for value in node.inputs if value is not None]
        if node.op_type not in ("Max", "Min") or node.domain or len(operands) != 2:
            continue
        dtype = dtypes[operands[0]] or dtypes[operands[1]]
        if dtype is None or not dtype.is_floating_point():
            continue
        for index, (own, other) in enumerate(zip(operands, operands[::-1], strict=True)):
            if not _is_number(other):
                missing = writer.before(node, "IsNaN", other, dtype=ir.DataType.BOOL)
                chosen = writer.before(node, "Where", missing, other, own, dtype=dtype)
                chosen.shape = None  # of both operands together
                node.replace_input_with(index, chosen)


def _is_number(value: ir.Value) -> bool:
    """Whether it is known that it holds no NaN."""
    constant = value.const_value
    return constant is not None and constant.size <= 1024 and not np.isnan(constant.numpy()).any()


QUANTIZED_SINCE_23 = lack("QuantizeLinear", opsets=range(23, OPSETS.stop))

LAGS = (
    Lag("<1.31", {"Where": {"int8": "int32", "uint32": "int64"}}),
    Lag("<1.30", {"Trilu": {"int32": "int64"}}, model=without_cosines),
    Lag("<1.26", {"TopK": {**BYTES, "int16": "int32"}}),
    Lag("<1.25", newest=23),  # 1.24 loads 24 and 25, and has no TensorScatter
    Lag("<1.24", dict.fromkeys(("Max", "Min"), BYTES), lacks=(QUANTIZED_SINCE_23,)),
    Lag("<1.23.1", newest=22),  # 1.23.0 loads 23, and mixes up heads that share keys
    Lag(
        "<1.21",
        {
            **dict.fromkeys(("Add", "Sub", "Mul", "Equal"), WORDS),
            **dict.fromkeys(("Less", "LessOrEqual", "Greater", "GreaterOrEqual"), WORDS),
            **{"Div": DIVIDED, "Neg": {"int16": "int32"}},
        },
        newest=21,
    ),
    Lag("<1.20", {"ArgMin": BYTES, "Trilu": {"bool": "int64"}}, model=with_nan),
)
