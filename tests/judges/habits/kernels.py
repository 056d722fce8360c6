"""Which types ONNX Runtime's CPU has no kernel for, operator by operator: asked of itself.

float16 is nowhere among them: where it has no kernel of its own, ONNX Runtime converts by itself.
"""

from collections.abc import Sequence
from typing import Any

import ml_dtypes  # noqa: F401
import numpy as np
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

FLOATING = ("float16", "bfloat16", "float32", "float64")
WHOLE = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = {
    name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (*FLOATING, *WHOLE, "bool")
}
FLOATS = {DTYPES[name] for name in FLOATING}

ATTRIBUTES: dict[str, dict[str, Any]] = {
    **{name: {"kernel_shape": [2]} for name in ("AveragePool", "MaxPool")},
    **{"BitShift": {"direction": "LEFT"}, "Concat": {"axis": 0}},
}


def missing(op: str) -> str:
    """The types that the schema has and ONNX Runtime has not."""
    schema = onnx.defs.get_schema(op, OPSET)
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = list(schema.inputs)[: 3 if op == "Clip" else schema.min_input]
    allowed = [constraints.get(each.type_str, [each.type_str]) for each in inputs]
    # The first one of `Where` is a condition.
    return " ".join(
        name
        for name, number in DTYPES.items()
        if _written(number) in allowed[op == "Where"] and not _loads(op, schema, allowed, number)
    )


def _written(dtype: int) -> str:
    return f"tensor({TensorProto.DataType.Name(dtype).lower()})"


def _loads(
    op: str, schema: onnx.defs.OpSchema, allowed: Sequence[Sequence[str]], dtype: int
) -> bool:
    """Whether there is a kernel of this type; inputs that cannot have it are integers or truths."""
    choices = (dtype, TensorProto.INT64, TensorProto.BOOL)
    types = [next(each for each in choices if _written(each) in those) for those in allowed]
    names = [f"x{place}" for place in range(len(types))]
    if op == "Resize":
        types, names = [*types, TensorProto.INT64], [*names, "", "", "sizes"]
    pairs = zip(filter(None, names), types, strict=True)
    inputs = [helper.make_tensor_value_info(*pair, None) for pair in pairs]
    fmod = {"fmod": 1} if op == "Mod" and dtype in FLOATS else {}
    outputs = [f"y{place}" for place in range(schema.min_output)]
    node = helper.make_node(op, names, outputs, **ATTRIBUTES.get(op, {}), **fmod)
    graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y0")])
    opsets = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        ort.InferenceSession(model.SerializeToString(), options)
    except NotImplemented:
        return False
    return True
