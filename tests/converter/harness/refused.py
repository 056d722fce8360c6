"""What the converter refuses of JAX's harness at opset 23, and why: by group."""

COMPLEX = "ONNX has no complex numbers"
LATER = "there is no rule for it yet"
DECOMPOSITION = "ONNX has no matrix decompositions"
INTEGERS = "ONNX convolves floats only"

REFUSED = {
    "bessel_i0e": LATER,
    "bessel_i1e": LATER,
    "bitcast_convert_type": "its operator is new in opset 26",
    "cholesky": DECOMPOSITION,
    "complex": COMPLEX,
    "conj": COMPLEX,
    "conv_general_dilated": INTEGERS,
    "convert_element_type": COMPLEX,
    "custom_linear_solve": DECOMPOSITION,
    "dot_general": COMPLEX,
    "eig": DECOMPOSITION,
    "eigh": DECOMPOSITION,
    "fft": COMPLEX,
    "igamma": LATER,
    "igammac": LATER,
    "lu": DECOMPOSITION,
    "nextafter": LATER,
    "qr": DECOMPOSITION,
    "reduce": "ONNX has no reduction by any computation",
    "reduce_precision": "ONNX has no floats of such precision",
    "reduce_window_add": "ONNX pools floats, and pads with zeros only",
    "reduce_window_max": "ONNX pools floats, and pads with the lowest one only",
    "reduce_window_min": "ONNX pools floats, and pads with the lowest one only",
    "reduce_window_mul": "ONNX has no pooling by products",
    "regularized_incomplete_beta": LATER,
    "select_and_gather_add": LATER,
    "select_and_scatter_add": "only a pooling's gradient in floats has its form",
    "svd": DECOMPOSITION,
    "triangular_solve": DECOMPOSITION,
    "tridiagonal_solve": DECOMPOSITION,
}
"""A group of which nothing is refused any more may not be here."""
