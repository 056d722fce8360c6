"""Arrays out of files, one at a time, without mapping the files into memory.

A mapped file's pages count as the process's memory for as long as the map lives; a model of 27 GB
is to be read in a few hundred MB.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from weights.distributions import Float32, Shape
from weights.errors import Damaged, NotACheckpoint
from weights.tensors import FLOATS, LazyTensor

STORED = {"float32": "<f4", "float16": "<f2", "bfloat16": "<u2"}
"""How numpy sees the bytes of each of `FLOATS`; it has no bfloat16."""

PIECE = 8 << 20
"""Bytes that are hashed or copied at once."""


@contextmanager
def sound(path: Path, kind: str, *errors: type[Exception]) -> Generator[None]:
    """Make a sentence of what a reader, or a library's `errors`, finds wrong with a file."""
    caught: tuple[type[Exception], ...] = (Damaged, *errors)
    try:
        yield
    except caught as error:
        # Names of members and of types come from the file and may be anything.
        what = ascii(str(error) or "its tables cannot be read")[1:-1][:300]
        raise NotACheckpoint(
            f"{path} is no sound {kind} ({what}): download it again, or give another path."
        ) from error


class Bytes(Protocol):
    """Something that bytes can be read from, in any order."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with what lies at `offset`."""
        ...


class FileBytes:
    """The bytes of a file."""

    def __init__(self, path: Path):
        self.path = path

    def read_into(self, offset: int, target: memoryview) -> None:
        with self.path.open("rb", buffering=0) as file:
            file.seek(offset)
            while target:
                count = file.readinto(target)
                if not count:
                    raise NotACheckpoint(f"{self.path} ends too early: download it again.")
                target = target[count:]


def width(dtype: str) -> int:
    """Bytes of a number, by the name of its type: `bfloat16`, `float8_e5m2`, `bool`."""
    return 1 if dtype == "bool" else int(re.findall(r"\d+", dtype)[0]) // 8


def lazy(source: Bytes, offset: int, shape: Shape, dtype: str) -> LazyTensor:
    """A tensor of contiguous values at `offset`."""
    read = partial(read_values, source, offset, shape, dtype) if dtype in FLOATS else unreadable
    return LazyTensor(shape, dtype, read)


def read_values(source: Bytes, offset: int, shape: Shape, dtype: str) -> Float32:
    """The values at `offset` as float32."""
    stored = np.empty(math.prod(shape), STORED[dtype])
    source.read_into(offset, stored.view(np.uint8).data)
    return as_float32(stored, dtype).reshape(shape)


def as_float32(stored: NDArray[np.generic], dtype: str) -> Float32:
    """Values from their stored form; float32 itself is not copied."""
    if dtype == "bfloat16":
        return (stored.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return stored.astype(np.float32, copy=False)


def unreadable() -> Float32:
    """`read` of a tensor that holds no weights."""
    raise TypeError("not a dense tensor of floats; coverage is checked before anything is read")


def sha256(path: Path, step: Callable[[int], None] | None = None) -> str:
    """Digest of a file, read in pieces; `step` is told the size of each."""
    digest = hashlib.sha256()
    buffer = bytearray(PIECE)
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(buffer):
            digest.update(memoryview(buffer)[:count])
            if step is not None:
                step(count)
    return digest.hexdigest()
