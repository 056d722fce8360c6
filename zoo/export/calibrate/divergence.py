"""Where to cut a distribution off before it is rounded to few levels: the least divergence.

Source: S. Migacz, "8-bit inference with TensorRT" (GTC 2017), as MXNet and ONNX Runtime compute it.
"""

import math

import numpy as np
from numpy.typing import NDArray

from zoo.export.calibrate.observed import Counts
from zoo.export.quantise.fixed_columns import LEVELS

SMOOTHING = 1e-4
"""What a part without numbers counts."""


def likeliest_reach(counts: Counts, reach: float) -> float:
    """The magnitude beyond which numbers are to be cut off.

    `counts` is a histogram of `[-reach, reach]` in an odd number of parts. Of all cuts it is the
    one with the least divergence of Kullback and Leibler between two distributions: the cut one,
    with what lies outside added to its outermost parts, and that in `LEVELS` levels.
    """
    middle = len(counts) // 2
    best = min(range(LEVELS // 2, middle + 1), key=lambda half: divergence(counts, half))
    return reach * (2 * best + 1) / len(counts)


def divergence(counts: Counts, half: int) -> float:
    """Between a histogram and the same in few levels. It is cut off behind the `half`-th part on
    either side of its middle one."""
    start, end = len(counts) // 2 - half, len(counts) // 2 + half + 1
    part = counts[start:end]
    reference = part.copy()
    reference[0] += counts[:start].sum()
    reference[-1] += counts[end:].sum()
    width = len(part) // LEVELS
    whole = LEVELS * width
    levels = part[:whole].reshape(LEVELS, width).sum(1)
    levels[-1] += part[whole:].sum()
    filled = (reference != 0)[:whole].reshape(LEVELS, width).sum(1)
    merged = np.zeros_like(reference)
    merged[:whole] = np.repeat(np.where(filled, levels // np.maximum(filled, 1), 0), width)
    if not merged.any():
        return math.inf
    p, q = _smoothed(reference), _smoothed(merged)
    return float((p * np.log(p / q)).sum())


def _smoothed(counts: Counts) -> NDArray[np.float64]:
    """Shares, none of them zero."""
    empty = counts == 0
    taken = SMOOTHING * empty.sum() / (~empty).sum()
    found = np.where(empty, SMOOTHING, counts - taken)
    return found / found.sum()
