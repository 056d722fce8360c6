"""The calls of JAX's harness that are not right at opset 23, with the reasons."""

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
"""Reasons by a pattern of full harness names. Each pattern must match a harness of the sample. The
files of `WRONG` differ from JAX; all other harnesses are refused."""

WRONG = "top_k_sort_inf_nan_*"


def reason(name: str) -> str | None:
    """Return why a harness is not right, or None if it has to be right."""
    return next((text for pattern, text in REMAINING.items() if fnmatch(name, pattern)), None)
