"""What the converter refuses of JAX's harness at opset 23, and why: by group."""

COMPLEX = "ONNX has no complex numbers"
INTEGERS = "ONNX convolves floats only"

REFUSED = {
    "bitcast_convert_type": "its operator is new in opset 26",
    "complex": COMPLEX,
    "conj": COMPLEX,
    "conv_general_dilated": INTEGERS,
    "convert_element_type": COMPLEX,
    "dot_general": COMPLEX,
    "eig": "its iterations have no counterpart in ONNX",
    "fft": COMPLEX,
    "reduce_precision": "ONNX has no floats of such precision",
    "select_and_scatter_add": "only a pooling's gradient in floats has its form",
}
"""A group of which nothing is refused any more may not be here."""
