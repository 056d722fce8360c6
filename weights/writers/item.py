"""Checkpoints for others, written one tensor at a time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weights.distributions import Float32, Shape, round_to_bfloat16
from weights.tensors import LazyTensor

WIDTHS = {"float32": 4, "bfloat16": 2}


@dataclass(frozen=True)
class Item:
    """A tensor to write: its key, its values, and the type they get in the file."""

    key: str
    tensor: LazyTensor
    dtype: str = "float32"

    @property
    def shape(self) -> Shape:
        return self.tensor.shape

    @property
    def count(self) -> int:
        """How many numbers."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def size(self) -> int:
        """Bytes in the file."""
        return self.count * WIDTHS[self.dtype]

    def data(self) -> memoryview:
        """The bytes for the file."""
        return stored(self.tensor.read(), self.dtype)


def stored(values: Float32, dtype: str) -> memoryview:
    """Little-endian bytes of `values`; bfloat16 is rounded to."""
    array = np.ascontiguousarray(values, "<f4").reshape(-1)
    if dtype == "bfloat16":
        array = (round_to_bfloat16(array).view("<u4") >> 16).astype("<u2")
    return array.view(np.uint8).data


def total(items: Iterable[Item]) -> int:
    """Bytes of all tensors."""
    return sum(item.size for item in items)
