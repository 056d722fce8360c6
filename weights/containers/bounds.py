"""What reading a checkpoint may cost, whatever the file says; every reader keeps to it.

Telling what is in a file takes less than 5 seconds and 300 MB, and reading a tensor no more memory
than the tensor. What has to be decompressed for that takes a second for every 100 MB of content.
"""

from collections.abc import Sequence
from typing import Any

from weights.errors import DamagedFile
from weights.initializers import Shape

MOST_DIMENSIONS = 8  # axes of a tensor; the networks of vision have five at most

LARGEST_SIDE = 1 << 48
"""Entries along an axis, and of a storage: beyond every file, and exact in a product of eight."""

MOST_TENSORS = 10_000
"""Tensors of a file, or of all the files of an index; a network of 7 billion parameters has 700."""

MOST_FILES = 128
"""Files of an index, all of which are open at once; a network of 7 billion parameters has 6."""

MOST_VALUES = 20 * MOST_TENSORS
"""Values of a table, which in memory take 50 times their bytes in the file; a table may be in
another twice, and that in a third."""

LARGEST_TABLE = 4 << 20
"""Bytes of a table of tensors, whatever its format; one of 700 tensors takes 0.1 MB."""


def shape_of(sizes: Sequence[Any]) -> Shape:
    """A shape that a file claims. **Raises** `DamagedFile` if it is none."""
    if len(sizes) > MOST_DIMENSIONS:
        raise DamagedFile(
            f"a tensor has {len(sizes)} dimensions; at most {MOST_DIMENSIONS} are read"
        )
    if not all(type(size) is int and 0 <= size < LARGEST_SIDE for size in sizes):
        raise DamagedFile("a tensor's shape makes no sense")
    return tuple(sizes)


def within(what: str, size: int, most: int) -> int:
    """Return a count that a file claims. **Raises** `DamagedFile` if it is too large."""
    if not 0 <= size <= most:
        raise DamagedFile(f"{what} is said to have {size}, where 0 to {most} are read")
    return size
