"""Tensors that are read only when somebody asks for their values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Types that are read as float32 (float64 with rounding)."""


@dataclass(frozen=True)
class LazyTensor:
    """Shape and type of a tensor, known at once, and how to get its values.

    `dtype` is the type in the file; `read` gives float32 if it is one of `FLOATS`.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[np.float32]]


class LazyArrays(Mapping[str, NDArray[np.float32]]):
    """Arrays by name; looking one up reads it, and nothing is kept."""

    def __init__(self, tensors: Mapping[str, LazyTensor]):
        self.tensors = dict(tensors)

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        return self.tensors[name].read()

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


@dataclass(frozen=True)
class Provenance:
    """Where weights come from.

    `kind` is `"meta"` (a checkpoint of Meta's) or `"random"`. A file has a `name`, without its
    folder, and a `sha256`; random weights have a `seed`.
    """

    kind: str
    name: str | None = None
    sha256: str | None = None
    seed: int | None = None


@dataclass(frozen=True)
class Weights:
    """Values for every array leaf of a model, by its path (`blocks.0.attn.qkv.weight`)."""

    arrays: LazyArrays
    provenance: Provenance
