"""Sequence of `.npy` records, as `equinox.tree_serialise_leaves` writes the leaves of a tree.

Source: `numpy.lib.format`. A header is a Python expression. Only headers in the form that numpy
writes are accepted, by a regular expression, so that no expression of a file is evaluated.
"""

import io
import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

import numpy as np

from weights.containers.bounds import MAX_TENSORS, parse_shape
from weights.errors import DamagedFile
from weights.files import Bytes, Checkpoint, FileBytes, lazy_tensor, translate_damage
from weights.initializers import Shape
from weights.tensors import LazyTensor

ARRAY_MAGIC = b"\x93NUMPY"
EQUINOX = "Equinox leaves"

MAX_HEADER_BYTES = 1 << 14

HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[A-Za-z]\d{1,9})', 'fortran_order': (False|True), "
    rb"'shape': \(((?:\d{1,14}, )*(?:\d{1,14},?)?)\), \} *\n"
)

# numpy does not know bfloat16 and writes the last two codes for it.
NUMPY_CODES = "<f2 <f4 <f8 |b1 |i1 |u1 <i2 <i4 <i8 <u2 <u4 <u8 |V2 <V2"


@dataclass(frozen=True)
class ArrayHeader:
    """Header of an array in a file.

    **Arguments:**

    - `length`: size of the header in bytes.
    - `shape`, `dtype`: shape and dtype of the array.
    - `size`: size of the values in bytes.
    - `fortran`: whether the first axis varies fastest. False for arrays of fewer than two axes.
    """

    length: int
    shape: Shape
    dtype: str
    size: int
    fortran: bool


def read_eqx(source: FileBytes, stream: IO[bytes]) -> Checkpoint:
    """Return the checkpoint of a file of Equinox leaves. `stream` starts at the beginning of the
    file `source`.

    The file has no names, so tensors are named by their positions: `"0"`, `"1"`, …. **Raises**
    `NotACheckpoint` if the file is invalid.
    """
    with translate_damage(source.path, "file of Equinox leaves"):
        records = enumerate(scan_records(stream, source.state.size, source))
        tensors = {str(number): tensor for number, tensor in records}
    return Checkpoint(source.path, EQUINOX, (source,), tensors)


def scan_records(stream: IO[bytes], size: int, source: Bytes) -> Iterator[LazyTensor]:
    """Yield the tensors of consecutive records, without reading their values.

    **Arguments:**

    - `stream`: a stream at the beginning of the first record.
    - `size`: the number of bytes of all records.
    - `source`: the bytes of the records, from which the tensors read their values later.

    **Raises** `DamagedFile` if a record is invalid or in Fortran order, or if there are too many.
    """
    position = 0
    for _ in range(MAX_TENSORS + 1):
        if position == size:
            return
        header = read_array_header(stream)
        if header.fortran:
            raise DamagedFile("an array is in Fortran order")
        position += header.length
        if header.size > size - position:
            raise DamagedFile(
                f"a record claims {header.size} bytes where {size - position} are left"
            )
        yield lazy_tensor(source, position, header.shape, header.dtype)
        stream.seek(header.size, os.SEEK_CUR)
        position += header.size
    raise DamagedFile(f"more than {MAX_TENSORS} records")


def read_array_header(stream: IO[bytes]) -> ArrayHeader:
    """Return the array header at the current position of a stream. **Raises** `DamagedFile` if it
    is invalid."""
    start = stream.read(8)
    if start[:6] != ARRAY_MAGIC or start[6:] not in (b"\x01\x00", b"\x02\x00", b"\x03\x00"):
        raise DamagedFile("a record does not begin with the magic bytes of an array")
    width = 2 if start[6] == 1 else 4
    length = int.from_bytes(stream.read(width), "little")
    if length > MAX_HEADER_BYTES:
        raise DamagedFile(f"a header claims {length} bytes")
    if (header := HEADER.fullmatch(stream.read(length))) is None:
        raise DamagedFile("a header does not describe an array of numbers")
    code = header[1].decode()
    if code not in NUMPY_CODES.split():
        raise DamagedFile(f"an array of type {code}")
    shape = parse_shape([int(number) for number in header[3].replace(b",", b" ").split()])
    dtype = np.dtype(code)
    return ArrayHeader(
        length=8 + width + length,
        shape=shape,
        dtype="bfloat16" if dtype.kind == "V" else dtype.name,
        size=math.prod(shape) * dtype.itemsize,
        fortran=header[2] == b"True" and len(shape) > 1,
    )


def array_header(shape: Shape, code: str) -> bytes:
    """Return the magic bytes and the header that numpy writes (format 1.0) before the values of an
    array of this shape. `code` is the code of its dtype, such as `<f4`."""
    stream = io.BytesIO()
    description = {"descr": code, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, description)
    return stream.getvalue()
