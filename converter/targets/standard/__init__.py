"""The standard alone: what ONNX's operators take since opset 17, and no runtime's ways round it.

Source: the type constraints of ``onnx.defs``, 1.22.
"""

from converter.targets.target import BOOL, FORMULAS, NARROW, SHORT, UNSIGNED, Missing, Target, lack

KERNELS = {
    **dict.fromkeys(("add", "add_any", "mul", "sub", "div"), Missing(BOOL)),
    **dict.fromkeys(("max", "min", "clamp", "cummax", "cummin"), Missing(BOOL)),
    **dict.fromkeys(("lt", "le", "gt", "ge"), Missing(BOOL, back=False)),
    "neg": Missing({**UNSIGNED, "uint8": "int32", "uint16": "int32"}),
    "pow": Missing({**NARROW, "uint32": "int64", "uint64": "float64"}, first=1),
    **dict.fromkeys(("cumsum", "cumprod", "reduce_sum", "reduce_prod"), Missing(NARROW)),
    **dict.fromkeys(("reduce_max", "reduce_min"), Missing({**BOOL, **SHORT})),
    **dict.fromkeys(("argmax", "argmin"), Missing(BOOL, back=False)),
    **dict.fromkeys(
        ("top_k", "approx_top_k"), Missing({**BOOL, "bfloat16": "float32"}, order=True)
    ),
    "matmul": Missing({**NARROW, **BOOL}),
    **dict.fromkeys(("scatter-add", "scatter-mul", "scatter-max", "scatter-min"), Missing(BOOL)),
    "celu": Missing({"float16": "float32"}),
    **FORMULAS,
}

TARGET = Target("standard", KERNELS, (lack("InstanceNormalization LSTM GRU RNN", "bfloat16"),))
