"""Which types ONNX Runtime's CPU has no kernel for, operator by operator: asked of itself.

float16 is nowhere among them: where it has no kernel of its own, ONNX Runtime converts by itself.
"""

from typing import Any

import onnx
import onnxruntime as ort
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented

OPSET, IR_VERSION = 23, 10

MISSING = {
    "bfloat16": "Abs Add Attention Ceil Cos Div Equal Exp Expand Floor Greater GreaterOrEqual Less "
    "LessOrEqual Log LogSoftmax MatMul MaxPool Mod Mul Neg Pow RMSNormalization Reciprocal Round "
    "Sigmoid Sin Softmax Sqrt Sub Tanh Tile",
    "bfloat16 float64": "Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cosh Erf "
    "Gelu GlobalAveragePool Sinh Softplus Tan",
    "bfloat16 int16 int64": "Relu",
    "bfloat16 int16 uint16": "Clip Max Min",
    "bfloat16 int16 uint16 uint32 uint64": "ArgMax ArgMin",
    "bfloat16 int16 uint16 uint64 bool": "Where",
    "bfloat16 float64 int16 int64 uint16 uint32 uint64 bool": "Resize",
    "bfloat16 int8 int16 uint8 uint16 uint32 uint64": "Trilu",
    "bfloat16 uint32 uint64": "CumSum ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin "
    "ReduceProd ReduceSum ReduceSumSquare",
    "int16 uint16": "Pad",
    "uint16 uint32 uint64": "TopK",
    "": "BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Concat Gather GatherElements GatherND "
    "Identity IsInf IsNaN LayerNormalization Range Reshape ScatterElements ScatterND Sign Slice "
    "Squeeze Transpose Unsqueeze",
}
"""Operators by the types that their schemas have at opset 23, and no version looked at has."""

ADDED = {"1.32.0": {"BitShift": "uint16", "Pad": "bfloat16"}}
"""What the versions before lack as well, by the version that has it."""

DTYPES = {
    "float16": TensorProto.FLOAT16,
    "bfloat16": TensorProto.BFLOAT16,
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}

BINARY = (
    *("Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Concat", "Conv"),
    *("ConvTranspose", "Div", "Equal", "Greater", "GreaterOrEqual", "LayerNormalization", "Less"),
    *("LessOrEqual", "MatMul", "Max", "Min", "Mod", "Mul", "Pow", "RMSNormalization", "Sub"),
)
OPERANDS = {
    **dict.fromkeys(BINARY, "TT"),
    **dict.fromkeys(("Expand", "Gather", "GatherElements", "Reshape"), "TI"),
    **dict.fromkeys(("Tile", "TopK", "Unsqueeze"), "TK"),
    **{"Attention": "TTT", "Clip": "Tss", "CumSum": "Ti", "GatherND": "TN", "Pad": "TP"},
    **{"Range": "sss", "Resize": "T  P", "ScatterElements": "TIT", "ScatterND": "TNT"},
    **{"Slice": "TKK", "Where": "BTT"},
}
"""Operands by letter: the type in question as an array or a scalar, integers, booleans; else T."""

SHAPES = {"I": (2,), "K": (1,), "P": (4,), "i": (), "N": (2, 1), "B": (2,), "s": ()}
ARRAYS = {
    **dict.fromkeys(("AveragePool", "Conv", "ConvTranspose", "GlobalAveragePool"), (1, 1, 2)),
    **{"Attention": (1, 1, 2, 2), "MaxPool": (1, 1, 2), "Pad": (2, 2), "Resize": (1, 1, 2, 2)},
    "Trilu": (2, 2),
}
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "AveragePool": {"kernel_shape": [2]},
    "BitShift": {"direction": "LEFT"},
    "Concat": {"axis": 0},
    "MaxPool": {"kernel_shape": [2]},
}


def missing(op: str) -> str:
    """The types that the schema has and ONNX Runtime has not."""
    letters = OPERANDS.get(op, "T")
    schema = onnx.defs.get_schema(op, OPSET)
    kind = schema.inputs[min(letters.find("T"), len(schema.inputs) - 1) if "T" in letters else 0]
    allowed = {
        told
        for constraint in schema.type_constraints
        if constraint.type_param_str == kind.type_str
        for told in constraint.allowed_type_strs
    }
    return " ".join(
        name
        for name, number in DTYPES.items()
        if f"tensor({TensorProto.DataType.Name(number).lower()})" in allowed
        and not _loads(op, letters, name)
    )


def _loads(op: str, letters: str, dtype: str) -> bool:
    inputs = [
        helper.make_tensor_value_info(f"x{i}", _type(letter, dtype), _shape(op, letter))
        for i, letter in enumerate(letters)
        if letter != " "
    ]
    names = ["" if letter == " " else f"x{i}" for i, letter in enumerate(letters)]
    more = {"fmod": 1} if op == "Mod" and "float" in dtype else {}
    outputs = ["y", "i"] if op == "TopK" else ["y"]
    node = helper.make_node(op, names, outputs, **ATTRIBUTES.get(op, {}), **more)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options)
    except NotImplemented:
        return False
    return True


def _type(letter: str, dtype: str) -> int:
    if letter in "Ts":
        return DTYPES[dtype]
    return TensorProto.BOOL if letter == "B" else TensorProto.INT64


def _shape(op: str, letter: str) -> tuple[int, ...]:
    return ARRAYS.get(op, (2,)) if letter == "T" else SHAPES[letter]
