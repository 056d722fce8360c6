"""Which versions of ONNX are written. Importing this costs nothing."""

IR_VERSIONS = {
    **dict.fromkeys(range(17, 21), 8),
    **dict.fromkeys(range(21, 24), 10),
    **dict.fromkeys(range(24, 27), 11),
}
"""The version of ONNX's file format that is written for each opset."""

OPSETS = range(17, 27)
"""The versions of ONNX's operators that can be asked for."""
