"""Limits on the resources that reading a checkpoint may take, whatever the file claims.

Every reader keeps to these limits. Finding out what a file contains takes less than 5 seconds and
300 MB of memory. Reading a tensor takes no more memory than the tensor. Decompression, where that
is needed first, takes one second for every 100 MB of content.
"""

from collections.abc import Sequence
from typing import Any

from weights.errors import DamagedFile
from weights.initializers import Shape

MAX_DIMENSIONS = 8
"""Number of axes of a tensor. Vision networks have at most five."""

MAX_SIDE = 1 << 48
"""Size of an axis, and number of elements of a storage. No file is that large, and a product of
eight such sizes is exact."""

MAX_TENSORS = 10_000
"""Number of tensors in a file, or in all files of an index. A network of 7 billion parameters has
700."""

MAX_FILES = 128
"""Number of files of an index, which are all open at once. A network of 7 billion parameters has
6."""

MAX_VALUES = 20 * MAX_TENSORS
"""Number of values in the tables of a file. In memory a value takes 50 times its bytes in the file,
and the same table may be nested in others several times."""

MAX_TABLE_BYTES = 4 << 20
"""Size of a table of tensors in bytes, in any format. A table of 700 tensors takes 0.1 MB."""


def parse_shape(sizes: Sequence[Any]) -> Shape:
    """Return the sizes that a file claims for a tensor's axes as a shape.

    **Raises** `DamagedFile` if there are more than `MAX_DIMENSIONS` axes, or if a size is not an
    integer from 0 to below `MAX_SIDE`.
    """
    if len(sizes) > MAX_DIMENSIONS:
        raise DamagedFile(
            f"a tensor has {len(sizes)} dimensions; at most {MAX_DIMENSIONS} are read"
        )
    if not all(type(size) is int and 0 <= size < MAX_SIDE for size in sizes):
        raise DamagedFile("a tensor's shape is not a list of valid sizes")
    return tuple(sizes)


def check_count(description: str, size: int, limit: int) -> int:
    """Return `size`, a count or length that a file claims.

    **Raises** `DamagedFile` if it is negative or greater than `limit`. `description` is the subject
    of the message, such as `"its content"`.
    """
    if not 0 <= size <= limit:
        raise DamagedFile(f"{description} claims a size of {size}; the limit is {limit}")
    return size
