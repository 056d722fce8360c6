"""numpy's `.npz`: a zip archive with an `.npy` file for each array, stored or deflated.

Source: `numpy.savez`, `numpy.savez_compressed`. Nothing is unpickled and only arrays of numbers are
read. Of a deflated member no more is decompressed than its header announces.
"""

import zipfile
from functools import partial

import numpy as np

from weights.containers import npy
from weights.containers.zips import ERRORS, locate_member
from weights.errors import DamagedFile
from weights.files import (
    Checkpoint,
    FileBytes,
    lazy_tensor,
    raise_unreadable,
    stored_dtype,
    translate_damage,
)
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor

SUFFIX = ".npy"

KIND = ".npz of plain arrays"


def is_npz(archive: zipfile.ZipFile) -> bool:
    """Return True if an archive has members, and all of their names end in `.npy`."""
    names = archive.namelist()
    return bool(names) and all(name.endswith(SUFFIX) for name in names)


def read_npz(source: FileBytes, archive: zipfile.ZipFile) -> Checkpoint:
    """Return the checkpoint of an `.npz` file, with a tensor for each array. `archive` is the open
    zip archive of the file `source`.

    **Raises** `NotACheckpoint` if the archive is invalid.
    """
    with translate_damage(source.path, KIND, *ERRORS):
        tensors = {
            info.filename.removesuffix(SUFFIX): _lazy_member(source, archive, info)
            for info in archive.infolist()
        }
    return Checkpoint(source.path, "numpy archive", (source,), tensors)


def _lazy_member(source: FileBytes, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> LazyTensor:
    """Return the tensor of the member `info` of an archive, without its values. A member that does
    not contain floats gets a tensor that cannot be read.

    **Raises** `DamagedFile` if its header is invalid or does not match its size, or if it is
    neither stored nor deflated.
    """
    # The decoders of the other methods may allocate gigabytes if the file says so.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedFile(f"{info.filename} is neither stored nor deflated")
    with archive.open(info) as file:
        header = npy.read_array_header(file)
    if header.length + header.size != info.file_size:
        raise DamagedFile(f"{info.filename} has {info.file_size} bytes, not the size of its array")
    # In Fortran order the bytes are those of the transposed array.
    shape = header.shape[::-1] if header.fortran else header.shape
    if header.dtype not in FLOATS:
        return LazyTensor(header.shape, header.dtype, raise_unreadable)
    if info.compress_type == zipfile.ZIP_STORED:
        offset = locate_member(source, info) + header.length
        read = lazy_tensor(source, offset, shape, header.dtype).read
    else:
        read = partial(_read_deflated, source, archive, info, header, shape)
    transposed_read = (lambda: np.ascontiguousarray(read().T)) if header.fortran else read
    return LazyTensor(header.shape, header.dtype, transposed_read)


def _read_deflated(
    source: FileBytes,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    header: npy.ArrayHeader,
    shape: Shape,
) -> Float32:
    """Return the values of a compressed member as float32.

    **Arguments:**

    - `source`: the file, which must not have changed.
    - `info`: the member.
    - `header`: the header of its array.
    - `shape`: the shape of the values in the order of the file, which is reversed for Fortran
      order.

    **Raises** `NotACheckpoint` if the member has another length, or not the checksum that the
    archive records.
    """
    with translate_damage(source.path, KIND, *ERRORS):
        with archive.open(info) as file:
            file.read(header.length)
            # One byte more than expected, so that the end of the member is read and checked.
            content = file.read(header.size + 1)
        if len(content) != header.size:
            raise DamagedFile(f"{info.filename} does not have the length that its header claims")
    source.check_unchanged()
    values = np.frombuffer(content, stored_dtype(header.dtype)).reshape(shape)
    return values.astype(np.float32, copy=False)
