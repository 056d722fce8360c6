"""What is not right of JAX's harness at opset 23, and why; and how much has to be."""

from collections.abc import Iterable
from fnmatch import fnmatch
from typing import Any

import numpy as np

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

TARGETS = {"float32, int32, bool": 0.97, "float16, bfloat16, int8, uint8": 0.95}
"""Of each class of dtypes, the share that has to be right."""

OF_COMPLEX = frozenset({"complex", "conj", "eig", "fft", "imag", "real"})
"""Groups whose operands or results are complex whatever their dtype is called."""


def reason(name: str) -> str | None:
    """Why a harness is not right; `None` if it has to be."""
    return next((why for row, why in REMAINING.items() if fnmatch(name, row)), None)


def dtypes_of(harness: Any) -> str:
    """The class of dtypes that a harness belongs to."""
    if harness.group_name in OF_COMPLEX or "complex" in harness.fullname:
        return "complex"
    name = np.dtype(harness.dtype).name
    return next((row for row in TARGETS if name in row.split(", ")), "other")


def shares(harnesses: Iterable[Any], right: Iterable[str]) -> dict[str, tuple[int, int]]:
    """How many of each class are right, and how many there are."""
    names, found = set(right), dict.fromkeys((*TARGETS, "other", "complex"), (0, 0))
    for harness in harnesses:
        good, every = found[dtypes_of(harness)]
        found[dtypes_of(harness)] = good + (harness.fullname in names), every + 1
    return found
