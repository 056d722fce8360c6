"""A run of `.npy` records, as `equinox.tree_serialise_leaves` writes the leaves of a tree.

Source: `numpy.lib.format`. Only headers in the form that numpy itself writes are read, by a
pattern; a header is a Python expression, and evaluating one that somebody made up is no use.
"""

import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from weights.containers.bounds import MOST_TENSORS, shape_of
from weights.errors import DamagedFile
from weights.files import Bytes, Checkpoint, FileBytes, lazy, sound
from weights.initializers import Shape
from weights.tensors import LazyTensor

ARRAY_MAGIC = b"\x93NUMPY"
EQUINOX = "Equinox leaves"

LARGEST_HEADER = 1 << 14

HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d{1,9})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d{1,14}, )*(?:\d{1,14},?)?)\), \} *\n"
)

# The last two are what numpy makes of bfloat16, which it does not know.
NUMPY_CODES = "<f2 <f4 <f8 |b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 |V2 <V2"


@dataclass(frozen=True)
class ArrayHeader:
    """Header of the values of an array: its own length, the array, and the values' bytes."""

    length: int
    shape: Shape
    dtype: str
    size: int
    fortran: bool


def read_eqx(source: FileBytes, stream: IO[bytes]) -> Checkpoint:
    """Tensors by their numbers (`"0"`, `"1"`, …): only the tree that they belong to has names.
    **Raises** `NotACheckpoint`."""
    with sound(source.path, "file of Equinox leaves"):
        records = enumerate(scan(stream, source.state.size, source))
        tensors = {str(number): tensor for number, tensor in records}
    return Checkpoint(source.path, EQUINOX, (source,), tensors)


def scan(stream: IO[bytes], size: int, source: Bytes) -> Iterator[LazyTensor]:
    """The records in `size` bytes, which are those of `source`; values are passed over. **Raises**
    `DamagedFile`."""
    position = 0
    for _ in range(MOST_TENSORS + 1):
        if position == size:
            return
        header = read_array_header(stream)
        if header.fortran:
            raise DamagedFile("an array in Fortran's order")
        position += header.length
        if header.size > size - position:
            raise DamagedFile(
                f"a record claims {header.size} bytes where {size - position} are left"
            )
        yield lazy(source, position, header.shape, header.dtype)
        stream.seek(header.size, os.SEEK_CUR)
        position += header.size
    raise DamagedFile(f"more than {MOST_TENSORS} records")


def read_array_header(stream: IO[bytes]) -> ArrayHeader:
    """The header that comes next. **Raises** `DamagedFile`."""
    start = stream.read(8)
    if start[:6] != ARRAY_MAGIC or start[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise DamagedFile("a record does not begin as one")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > LARGEST_HEADER:
        raise DamagedFile(f"a header claims {length} bytes")
    if (header := HEADER.fullmatch(stream.read(length))) is None:
        raise DamagedFile("a header does not describe an array of numbers")
    code = header[1].decode()
    if code not in NUMPY_CODES.split():
        raise DamagedFile(f"an array of type {code}")
    shape = shape_of([int(number) for number in header[3].replace(b",", b" ").split()])
    dtype = np.dtype(code)
    return ArrayHeader(
        length=8 + width + length,
        shape=shape,
        dtype="bfloat16" if dtype.kind == "V" else dtype.name,
        size=math.prod(shape) * dtype.itemsize,
        fortran=header[2] == b"True" and len(shape) > 1,
    )


def array_header(shape: Shape, code: str) -> bytes:
    """Header of the values of an array, as numpy writes it (format 1.0)."""
    stream = io.BytesIO()
    described = {"descr": code, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, described)
    return stream.getvalue()
