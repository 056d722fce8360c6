"""numpy's `.npz`: a zip archive with an `.npy` for every array, stored or deflated.

Source: `numpy.savez`, `numpy.savez_compressed`. Nothing is unpickled; only arrays of numbers are
read, and of a deflated member no more than its own header announces.
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from weights.checkpoint import Checkpoint
from weights.containers import npy
from weights.containers.zips import BadMember, locate
from weights.distributions import Float32
from weights.errors import NotACheckpoint
from weights.files import STORED, FileBytes, as_float32, lazy, unreadable
from weights.tensors import FLOATS, LazyTensor

SUFFIX = ".npy"

Members = Mapping[str, zipfile.ZipInfo]


def read_members(path: Path) -> Members | None:
    """The members of an `.npz` by key; None of another archive. **Raises** `NotACheckpoint`."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise _damaged(path, "the table of its archive cannot be read") from error
    if not infos or not all(info.filename.endswith(SUFFIX) for info in infos):
        return None
    members = {info.filename.removesuffix(SUFFIX): info for info in infos}
    if len(members) != len(infos):
        raise _damaged(path, "a name is given twice")
    return members


def read_npz(path: Path, members: Members) -> Checkpoint:
    """Tensors of an `.npz` by key. **Raises** `NotACheckpoint`."""
    try:
        with zipfile.ZipFile(path) as archive:
            tensors = {key: _tensor(path, archive, info) for key, info in members.items()}
    except (zipfile.BadZipFile, zlib.error, BadMember, npy.BadRecord, NotImplementedError) as error:
        raise _damaged(path, str(error)) from error
    except (RuntimeError, EOFError, OSError) as error:
        raise _damaged(path, "a member of it cannot be read") from error
    return Checkpoint(path, "numpy archive", (path,), tensors)


class _Member:
    """A member as `npy` wants to read it: its header only."""

    def __init__(self, file: BinaryIO):
        self.file = file

    def read(self, count: int) -> bytes:
        return self.file.read(count)


def _tensor(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> LazyTensor:
    with archive.open(info) as file:
        header = npy.read_header(_Member(file))
    if header.length + header.size != info.file_size:
        raise BadMember(f"{info.filename} has {info.file_size} bytes, not what its header says")
    # In Fortran's order the bytes are those of the transposed array.
    stored = header.shape[::-1] if header.fortran else header.shape
    if header.dtype not in FLOATS:
        return LazyTensor(header.shape, header.dtype, unreadable)
    if info.compress_type == zipfile.ZIP_STORED:
        offset = locate(path, info) + header.length
        read = lazy(FileBytes(path), offset, stored, header.dtype).read
    else:
        read = partial(_inflate, path, info, header, stored)
    return LazyTensor(header.shape, header.dtype, partial(_turned, read) if header.fortran else read)


def _turned(read: partial[Float32]) -> Float32:
    return np.ascontiguousarray(read().T)


def _inflate(
    path: Path, info: zipfile.ZipInfo, header: npy.Header, shape: tuple[int, ...]
) -> Float32:
    """The values of a deflated member; the archive's checksum is compared on the way."""
    try:
        with zipfile.ZipFile(path) as archive, archive.open(info) as file:
            file.read(header.length)
            # One more byte than there must be, so that the end is reached and checked.
            content = file.read(header.size + 1)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _damaged(path, f"{info.filename} cannot be decompressed") from error
    if len(content) != header.size:
        raise _damaged(path, f"{info.filename} is not as long as its header says")
    values = np.frombuffer(content, STORED[header.dtype])
    return as_float32(values, header.dtype).reshape(shape)


def _damaged(path: Path, what: str) -> NotACheckpoint:
    return NotACheckpoint(
        f"{path} is no sound .npz of plain arrays ({what}): download it again, or give another "
        "path."
    )
