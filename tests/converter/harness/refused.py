"""What the converter refuses of JAX's harness at opset 23, and where it may differ: why."""

ORDER = "of complex numbers that meet in one place the largest is not found"
INTEGERS = "ONNX convolves floats only"

REFUSED = {
    "conv_general_dilated": INTEGERS,
    "eig": "its iterations have no counterpart in ONNX",
    "random_gamma": "it draws as often as its input makes it, and ONNX has no values of keys",
    "scatter_max": ORDER,
    "scatter_min": ORDER,
    "select_and_scatter_add": "only a pooling's gradient in floats has its form",
}
"""A group of which nothing is refused any more may not be here."""

OPEN = {
    "top_k_sort_inf_nan_inshape_float32_5_k_5": "XLA's smallest number is a NaN with its sign bit "
    "set; no operator of ONNX's before opset 26 sees that bit",
}
"""What is not right and stays so, by the whole name. What is right may not be here."""
