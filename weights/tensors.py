"""Tensors whose values are read when they are used."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

FLOATS = frozenset({"float16", "bfloat16", "float32", "float64"})
"""Dtypes in which weights are saved. Values are read as float32; only float64 loses digits by
that."""


@dataclass(frozen=True)
class LazyTensor:
    """Shape and dtype of a tensor, with a function that reads its values.

    **Arguments:**

    - `shape`: the sizes of the axes.
    - `dtype`: the name of the dtype in the file, such as `bfloat16`. For a tensor of an unknown
      type, the name of its class.
    - `read`: a function that reads the values. It returns float32 if `dtype` is one of `FLOATS`.
      For a tensor of a checkpoint with another dtype, it raises `TypeError`.
    """

    shape: tuple[int, ...]
    dtype: str
    read: Callable[[], NDArray[np.float32]]


class LazyArrays(Mapping[str, NDArray[np.float32]]):
    """Mapping from names to arrays. Each access reads the values again; none are kept in memory.

    `nonfinite` has as keys the names of the arrays that were read and have a NaN or an infinity.
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
    """Return True if no value is NaN or infinite. This needs no additional memory if the sum of the
    values is finite."""
    with np.errstate(all="ignore"):
        total = values.sum()
    # A finite sum has finite terms; an infinite one may be an overflow.
    return bool(np.isfinite(total) or np.isfinite(values).all())


@dataclass(frozen=True)
class Provenance:
    """Source of a model's weights.

    **Arguments:**

    - `kind`: the convention of the tensor names (`"meta"`, `"google"`, `"original"`, `"equimo"`,
      `"huggingface"`, `"timm"`), or `"random"`.
    - `name`: name of the file, without its folder.
    - `sha256`: digest of the file.
    - `repository`, `publisher`, `revision`: for a file of a hub, its repository, the owner of the
      repository and the commit.
    - `seed`: seed of random weights.
    - `rope_periods`: `"file"`, or `"float32"` if the file contains no rotary periods and they are
      computed. None for a network without them.
    - `also_fits`: models under other licences that the file also fits, if the user's choice of a
      model is the only evidence of which model it is.
    - `adapter`: name of the folder of an adapter that was merged into the weights.
    - `folder`: name of the folder of a custom checkpoint whose file has a common name, such as
      `model.safetensors`.
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
    """Values for every array leaf of a model, by the path of the leaf (`blocks.0.attn.qkv.weight`).

    `filled_leaves` contains the leaves that have no tensor in the file and have the default values
    of their rules, such as a mask token. Rotary periods are not among them.
    """

    arrays: LazyArrays
    provenance: Provenance
    filled_leaves: tuple[str, ...] = ()
