"""What the converter refuses of JAX's harness at opset 23, and why: by group."""

COMPLEX = "ONNX has no complex numbers"
LATER = "there is no rule for it yet"
INTEGERS = "ONNX convolves floats only"

REFUSED = {
    "bessel_i0e": LATER,
    "bessel_i1e": LATER,
    "bitcast_convert_type": "its operator is new in opset 26",
    "complex": COMPLEX,
    "conj": COMPLEX,
    "conv_general_dilated": INTEGERS,
    "convert_element_type": COMPLEX,
    "dot_general": COMPLEX,
    "eig": "its iterations have no counterpart in ONNX",
    "fft": COMPLEX,
    "igamma": LATER,
    "igammac": LATER,
    "nextafter": LATER,
    "reduce_precision": "ONNX has no floats of such precision",
    "regularized_incomplete_beta": LATER,
    "select_and_scatter_add": "only a pooling's gradient in floats has its form",
}
"""A group of which nothing is refused any more may not be here."""
