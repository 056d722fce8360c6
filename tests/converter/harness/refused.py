"""What the converter refuses of JAX's harness at opset 23, and where it may differ: why."""

COMPLEX = "ONNX has no complex numbers"
INTEGERS = "ONNX convolves floats only"

REFUSED = {
    "complex": COMPLEX,
    "conj": COMPLEX,
    "conv_general_dilated": INTEGERS,
    "convert_element_type": COMPLEX,
    "dot_general": COMPLEX,
    "eig": "its iterations have no counterpart in ONNX",
    "fft": COMPLEX,
    "select_and_scatter_add": "only a pooling's gradient in floats has its form",
}
"""A group of which nothing is refused any more may not be here."""

OPEN = {
    "top_k_sort_inf_nan_inshape_float32_5_k_5": "XLA's smallest number is a NaN with its sign bit "
    "set; no operator of ONNX's before opset 26 sees that bit",
}
"""What is not right and stays so, by the whole name. What is right may not be here."""
