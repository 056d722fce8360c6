"""numpy's `.npz`: a zip archive with an `.npy` for every array, stored or deflated.

Source: `numpy.savez`, `numpy.savez_compressed`. Nothing is unpickled; only arrays of numbers are
read, and of a deflated member no more than its own header announces.
"""

import zipfile
from functools import partial

import numpy as np

from weights.containers import npy
from weights.containers.zips import ERRORS, locate_member
from weights.errors import DamagedFile
from weights.files import Checkpoint, FileBytes, lazy, sound, stored, unreadable
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor

SUFFIX = ".npy"

KIND = ".npz of plain arrays"


def is_npz(archive: zipfile.ZipFile) -> bool:
    """Whether an archive holds arrays of numpy, and nothing else."""
    names = archive.namelist()
    return bool(names) and all(name.endswith(SUFFIX) for name in names)


def read_npz(source: FileBytes, archive: zipfile.ZipFile) -> Checkpoint:
    """Tensors of an `.npz` by key. **Raises** `NotACheckpoint`."""
    with sound(source.path, KIND, *ERRORS):
        tensors = {
            info.filename.removesuffix(SUFFIX): _tensor(source, archive, info)
            for info in archive.infolist()
        }
    return Checkpoint(source.path, "numpy archive", (source,), tensors)


def _tensor(source: FileBytes, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> LazyTensor:
    # Of the other methods, a decoder may be told to take gigabytes.
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise DamagedFile(f"{info.filename} is neither stored nor deflated")
    with archive.open(info) as file:
        header = npy.read_array_header(file)
    if header.length + header.size != info.file_size:
        raise DamagedFile(f"{info.filename} has {info.file_size} bytes, not what its header says")
    # In Fortran's order the bytes are those of the transposed array.
    shape = header.shape[::-1] if header.fortran else header.shape
    if header.dtype not in FLOATS:
        return LazyTensor(header.shape, header.dtype, unreadable)
    if info.compress_type == zipfile.ZIP_STORED:
        offset = locate_member(source, info) + header.length
        read = lazy(source, offset, shape, header.dtype).read
    else:
        read = partial(_inflate, source, archive, info, header, shape)
    turned = (lambda: np.ascontiguousarray(read().T)) if header.fortran else read
    return LazyTensor(header.shape, header.dtype, turned)


def _inflate(
    source: FileBytes,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    header: npy.ArrayHeader,
    shape: Shape,
) -> Float32:
    """The values of a deflated member; the archive's checksum is compared on the way."""
    with sound(source.path, KIND, *ERRORS):
        with archive.open(info) as file:
            file.read(header.length)
            # One more byte than there must be, so that the end is reached and checked.
            content = file.read(header.size + 1)
        if len(content) != header.size:
            raise DamagedFile(f"{info.filename} is not as long as its header says")
    source.check_unchanged()
    values = np.frombuffer(content, stored(header.dtype)).reshape(shape)
    return values.astype(np.float32, copy=False)
