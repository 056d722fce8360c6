"""Write a PyTorch checkpoint, as `torch.save` does for a dictionary of tensors.

Source: `torch/serialization.py` and `torch/_utils.py`. See `weights.containers.pth`.
"""

import math
import struct
import zipfile
from pathlib import Path

from weights.containers.pth import contiguous_strides
from weights.initializers import Shape
from weights.progress import Progress
from weights.tensors import LazyTensor
from weights.writers.items import Items, byte_size, tensor_bytes

ROOT = "archive"
STORAGE_NAMES = {"float32": "FloatStorage", "bfloat16": "BFloat16Storage"}
ALIGNMENT = 64  # PyTorch aligns every storage to a multiple of this, in bytes
EPOCH = (1980, 1, 1, 0, 0, 0)


def write_pth(path: Path, items: Items, listener: Progress) -> None:
    """Write the tensors `items` into a file that `torch.load(path, weights_only=True, mmap=True)`
    reads as a dictionary."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_member("data.pkl"), make_pickle(items))
        archive.writestr(_member("byteorder"), b"little")
        for index, tensor in enumerate(items.values()):
            info = _member(f"data/{index}")
            info.file_size = byte_size(tensor)
            info.extra = _padding(archive, info)
            with archive.open(info, "w", force_zip64=True) as member:
                member.write(tensor_bytes(tensor))
            listener.step(byte_size(tensor))
        archive.writestr(_member("version"), b"3\n")


def _member(name: str) -> zipfile.ZipInfo:
    """Return the header of an archive's member with this name in the root folder. Its date is
    constant, so that equal tensors give equal files."""
    return zipfile.ZipInfo(f"{ROOT}/{name}", EPOCH)


def _padding(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """Return an extra field for the header of the member `info`, after which its content begins at
    a multiple of `ALIGNMENT` bytes. PyTorch uses such fields too."""
    # A local header has 30 bytes, the name, and 20 bytes for sizes above 4 GB.
    start = archive.start_dir + 30 + len(info.filename) + 20 + 4
    size = -start % ALIGNMENT
    return b"FB" + struct.pack("<H", size) + b"Z" * size


def make_pickle(items: Items) -> bytes:
    """Return the pickle, in protocol 2, that creates the dictionary of these tensors. A tensor's
    values are in the storage of its position."""
    entries = (_pickle_entry(index, *item) for index, item in enumerate(items.items()))
    return b"\x80\x02}(" + b"".join(entries) + b"u."


def _pickle_entry(index: int, key: str, tensor: LazyTensor) -> bytes:
    """Return the part of the pickle that pushes a key and its tensor, whose storage is the member
    `data/INDEX`."""
    storage = _pickle_text("storage") + b"ctorch\n" + STORAGE_NAMES[tensor.dtype].encode() + b"\n"
    storage += (
        _pickle_text(str(index)) + _pickle_text("cpu") + _pickle_integer(math.prod(tensor.shape))
    )
    view = (
        _pickle_integer(0)
        + _pickle_tuple(tensor.shape)
        + _pickle_tuple(contiguous_strides(tensor.shape))
    )
    end = b"\x89ccollections\nOrderedDict\n)RtR"
    return (
        _pickle_text(key) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + b"tQ" + view + end
    )


def _pickle_text(text: str) -> bytes:
    """Return the part of a pickle that pushes a text."""
    encoded = text.encode()
    return b"X" + struct.pack("<I", len(encoded)) + encoded


def _pickle_integer(number: int) -> bytes:
    """Return the part of a pickle that pushes an integer."""
    if number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    return b"\x8a\x08" + struct.pack("<q", number)


def _pickle_tuple(numbers: Shape) -> bytes:
    """Return the part of a pickle that pushes a tuple of integers."""
    return b"(" + b"".join(map(_pickle_integer, numbers)) + b"t"
