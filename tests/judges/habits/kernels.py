"""Dtypes for which ONNX Runtime has no kernel on the CPU, by operator.

ONNX Runtime itself is asked, by loading a model of one node. float16 is never missing: where it has
no kernel, ONNX Runtime inserts casts.
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
"""By types: the operators whose schemas have these types at opset 23, without a kernel for them.

No version of ONNX Runtime in the tables has these kernels.
"""

ADDED = {"1.32.0": {"BitShift": "uint16", "Pad": "bfloat16"}}
"""By version of ONNX Runtime: the kernels that it added, which older versions lack too."""

FLOATING = ("float16", "bfloat16", "float32", "float64")
INTEGERS = tuple(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
DTYPES = {
    name: helper.np_dtype_to_tensor_dtype(np.dtype(name)) for name in (*FLOATING, *INTEGERS, "bool")
}
FLOATS = {DTYPES[name] for name in FLOATING}

ATTRIBUTES: dict[str, dict[str, Any]] = {
    **{name: {"kernel_shape": [2]} for name in ("AveragePool", "MaxPool")},
    **{"BitShift": {"direction": "LEFT"}, "Concat": {"axis": 0}},
}


def missing(op: str) -> str:
    """Return the names of types that an operator's schema has and for which there is no kernel."""
    schema = onnx.defs.get_schema(op, OPSET)
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    inputs = list(schema.inputs)[: 3 if op == "Clip" else schema.min_input]
    allowed = [constraints.get(operand.type_str, [operand.type_str]) for operand in inputs]
    # The first operand of `Where` is the condition.
    return " ".join(
        name
        for name, dtype in DTYPES.items()
        if _type_name(dtype) in allowed[op == "Where"] and not _loads(op, schema, allowed, dtype)
    )


def _type_name(dtype: int) -> str:
    return f"tensor({TensorProto.DataType.Name(dtype).lower()})"


def _loads(
    op: str, schema: onnx.defs.OpSchema, allowed: Sequence[Sequence[str]], dtype: int
) -> bool:
    """Return whether there is a kernel of an operator for a dtype.

    Inputs that cannot have this dtype are integers or Booleans.
    """
    choices = (dtype, TensorProto.INT64, TensorProto.BOOL)
    types = [
        next(choice for choice in choices if _type_name(choice) in names_allowed)
        for names_allowed in allowed
    ]
    names = [f"x{index}" for index in range(len(types))]
    if op == "Resize":
        types, names = [*types, TensorProto.INT64], [*names, "", "", "sizes"]
    pairs = zip(filter(None, names), types, strict=True)
    inputs = [helper.make_tensor_value_info(*pair, None) for pair in pairs]
    fmod = {"fmod": 1} if op == "Mod" and dtype in FLOATS else {}
    outputs = [f"y{index}" for index in range(schema.min_output)]
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
