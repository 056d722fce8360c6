"""What is not right of JAX's harness at opset 23, and why."""

from fnmatch import fnmatch

ORDER = "of complex numbers that meet in one place the largest is not found"
REMAINING = {
    "eig_*_[1-9]*_[1-9]*_compute*": "its iterations have no counterpart in ONNX",
    "rng_bit_generator_*": "it is XLA's own generator",
    "scatter_max_*complex64*": ORDER,
    "scatter_min_*complex64*": ORDER,
    "top_k_sort_inf_nan_*": "XLA's smallest number is a NaN with its sign bit set; no operator of "
    "ONNX's before opset 26 sees that bit",
}
"""By the whole name. A row that nothing is left of may not be here; the last is wrong, all others
are refused."""

WRONG = "top_k_sort_inf_nan_*"


def reason(name: str) -> str | None:
    """Why a harness is not right; `None` if it has to be."""
    return next((why for row, why in REMAINING.items() if fnmatch(name, row)), None)
