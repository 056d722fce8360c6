"""Writes a PyTorch checkpoint, as `torch.save` does for a dictionary of tensors.

Source: `torch/serialization.py` and `torch/_utils.py`; see `weights.containers.pth`.
"""

import math
import struct
import zipfile
from pathlib import Path

from weights.containers.pth import contiguous
from weights.initializers import Shape
from weights.progress import Progress
from weights.tensors import LazyTensor
from weights.writers.items import Items, byte_size, data

ROOT = "archive"
STORAGE_NAMES = {"float32": "FloatStorage", "bfloat16": "BFloat16Storage"}
ALIGNMENT = 64  # PyTorch begins every storage at a multiple of this
EPOCH = (1980, 1, 1, 0, 0, 0)


def write_pth(path: Path, items: Items, listener: Progress) -> None:
    """A file that `torch.load(path, weights_only=True, mmap=True)` reads."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        archive.writestr(_member("data.pkl"), pickle(items))
        archive.writestr(_member("byteorder"), b"little")
        for index, tensor in enumerate(items.values()):
            info = _member(f"data/{index}")
            info.file_size = byte_size(tensor)
            info.extra = _padding(archive, info)
            with archive.open(info, "w", force_zip64=True) as member:
                member.write(data(tensor))
            listener.step(byte_size(tensor))
        archive.writestr(_member("version"), b"3\n")


def _member(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(f"{ROOT}/{name}", EPOCH)


def _padding(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    """An extra field, of a kind that PyTorch uses too, that aligns what follows the header."""
    # A local header has 30 bytes, the name, and 20 bytes for sizes beyond 4 GB.
    start = archive.start_dir + 30 + len(info.filename) + 20 + 4
    room = -start % ALIGNMENT
    return b"FB" + struct.pack("<H", room) + b"Z" * room


def pickle(items: Items) -> bytes:
    """The program that rebuilds the dictionary, in protocol 2."""
    entries = (_entry(index, *item) for index, item in enumerate(items.items()))
    return b"\x80\x02}(" + b"".join(entries) + b"u."


def _entry(index: int, key: str, tensor: LazyTensor) -> bytes:
    storage = _text("storage") + b"ctorch\n" + STORAGE_NAMES[tensor.dtype].encode() + b"\n"
    storage += _text(str(index)) + _text("cpu") + _number(math.prod(tensor.shape))
    view = _number(0) + _tuple(tensor.shape) + _tuple(contiguous(tensor.shape))
    end = b"\x89ccollections\nOrderedDict\n)RtR"
    return _text(key) + b"ctorch._utils\n_rebuild_tensor_v2\n((" + storage + b"tQ" + view + end


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def _number(number: int) -> bytes:
    if number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    return b"\x8a\x08" + struct.pack("<q", number)


def _tuple(numbers: Shape) -> bytes:
    return b"(" + b"".join(map(_number, numbers)) + b"t"
