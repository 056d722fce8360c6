"""Tensors that are read only when somebody asks for their values."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Types that weights are saved in; they are read as float32, to which float64 alone is rounded."""


@dataclass(frozen=True)
class LazyTensor:
    """Shape and type of a tensor, known at once, and how to get its values.

    `dtype` is the type in the file; `read` gives float32 if it is one of `FLOATS`.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[np.float32]]


class LazyArrays(Mapping[str, NDArray[np.float32]]):
    """Arrays by name; looking one up reads it, and nothing is kept.

    `nonfinite` names those that were read and hold a NaN or an infinity.
    """

    def __init__(self, tensors: Mapping[str, LazyTensor]):
        self.tensors = dict(tensors)
        self.nonfinite: dict[str, None] = {}

    def __getitem__(self, name: str) -> NDArray[np.float32]:
        values = self.tensors[name].read()
        if not is_finite(values):
            self.nonfinite[name] = None
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)


def is_finite(values: NDArray[np.float32]) -> bool:
    """Whether no value is NaN or infinite. Needs no memory where that is so."""
    with np.errstate(all="ignore"):
        total = values.sum()
    # A finite sum has finite terms; an infinite one may be an overflow.
    return bool(np.isfinite(total) or np.isfinite(values).all())


@dataclass(frozen=True)
class Provenance:
    """Where weights come from.

    `kind` is whose names the file uses (`"meta"`, `"google"`, `"original"`, `"equimo"`,
    `"huggingface"`, `"timm"`) or `"random"`. A file has a `name`, without its folder, and a
    `sha256`; one from a hub the `repository`, its owner (`publisher`) and the commit (`revision`).
    Random weights have a `seed`. `rope_periods` is `"file"`, or `"float32"` where the file holds
    none and they are computed. `also_fits` names the models under other terms whose file it may as
    well be, where that it is this one's is known only from who named it. An `adapter` is the name
    of the folder of one that was merged into it, `folder` that of somebody's own checkpoint whose
    file is called as many are.
    """

    kind: str
    name: str | None = None
    sha256: str | None = None
    repository: str | None = None
    revision: str | None = None
    publisher: str | None = None
    seed: int | None = None
    rope_periods: str | None = None
    also_fits: tuple[str, ...] = ()
    adapter: str | None = None
    folder: str | None = None


@dataclass(frozen=True)
class Weights:
    """Values for every array leaf of a model, by its path (`blocks.0.attn.qkv.weight`).

    `filled` names leaves that the file knows nothing of and inference does not need.
    """

    arrays: LazyArrays
    provenance: Provenance
    filled: tuple[str, ...] = ()
