"""Arrays as bytes in the order of their axes, a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

PIECE = 4 << 20
"""Bytes of a piece; one holds a whole index of an array's first axis at least."""

STRIP = 128
"""Positions of the last axis that are copied at once. What is read of a transposed matrix lies in
so many rows, which a processor's cache holds."""


def pieces(array: np.ndarray) -> Iterator[memoryview]:
    """The bytes of an array, as C orders them; not copied where they lie in memory like that."""
    if array.flags.c_contiguous:
        flat = array.reshape(-1).view(np.uint8)
        for start in range(0, flat.size, PIECE):
            yield flat[start : start + PIECE].data
        return
    rows = max(1, PIECE // array[0].nbytes)
    for start in range(0, len(array), rows):
        yield in_order(array[start : start + rows]).reshape(-1).view(np.uint8).data


def in_order(array: np.ndarray) -> np.ndarray:
    """A copy whose bytes are as C orders them."""
    out = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[-1], STRIP):
        strip = np.s_[..., start : start + STRIP]
        # Side by side first, in their own order: rows whose distance is a power of two would push
        # each other out of the cache.
        out[strip] = array[strip].copy(order="K")
    return out
