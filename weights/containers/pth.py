"""PyTorch checkpoints: a zip archive with a pickle and one member for every storage.

They are read without PyTorch: it takes seconds to import, maps files into memory, and is not
needed for a table of tensors.

Source: `torch/serialization.py`; the archive's form is that of PyTorch 1.6 and later.
"""

import math
import re
import zipfile
from collections.abc import Mapping
from functools import partial

import numpy as np

from weights.containers.bounds import LARGEST_TABLE, MOST_TENSORS, within
from weights.containers.nested import find_tables, flatten
from weights.containers.pickles import Other, Storage, StoredTensor, unpickle
from weights.containers.zips import ERRORS, locate_member
from weights.errors import DamagedFile, NotACheckpoint, UnsafeCheckpoint
from weights.files import Checkpoint, FileBytes, lazy, read_values, sound, stored, unreadable
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor

TENSORS = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
"""What transformers and timm called the file before there were safetensors, and several of them."""

STORAGES = {
    **{"Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Double": "float64"},
    **{"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8"},
    **{"Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"},
}


def read_pth(source: FileBytes, members: Mapping[str, zipfile.ZipInfo]) -> Checkpoint:
    """The tensors of a `.pth` by where they are in it; nothing in it is executed. **Raises**
    `NotACheckpoint`, and `UnsafeCheckpoint` where there are only objects."""
    path = source.path
    with sound(path, "PyTorch checkpoint", *ERRORS):
        archive = Archive(source, members)
        content = unpickle(archive.read("data.pkl", LARGEST_TABLE))
        state, objects = flatten(content)
        tables = find_tables(content)
        within("its table (in tensors)", len(state), MOST_TENSORS)
        tensors = {key: archive.tensor(key, value) for key, value in state.items()}
    if isinstance(content, Other) or (objects and not tensors):
        classes = content.what if isinstance(content, Other) else ", ".join({*objects.values()})
        raise UnsafeCheckpoint(
            f"{path} holds no tensors but objects ({classes[:200]}), and making these could run "
            "code that it brings along: where they are known, `torch.save(model.state_dict(), "
            "PATH)` saves what is in one."
        )
    if not any(re.search(r"[^\d.]", key) for key in tensors):
        raise NotACheckpoint(
            f"{path} holds a {type(content).__name__} and no table of named tensors: give a file "
            "that holds a state dict."
        )
    return Checkpoint(path, "PyTorch archive", (source,), tensors, objects=objects, tables=tables)


class Archive:
    """The members of a checkpoint: `<root>/data.pkl`, `<root>/data/0` …"""

    def __init__(self, source: FileBytes, members: Mapping[str, zipfile.ZipInfo]):
        roots = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(roots) != 1:
            raise DamagedFile("it has not one table of tensors")
        root = roots[0].removesuffix("data.pkl")
        self.source = source
        self.members = {name.removeprefix(root): info for name, info in members.items()}
        if "byteorder" in self.members and self.read("byteorder", 64) != b"little":
            raise DamagedFile("its numbers are big-endian")

    def read(self, name: str, most: int) -> bytes:
        """The content of a small member."""
        info = self.members[name]
        if info.file_size > most:
            raise DamagedFile(f"{name} has {info.file_size} bytes, far too many")
        content = bytearray(info.file_size)
        self.source.read_into(locate_member(self.source, info), memoryview(content))
        return bytes(content)

    def tensor(self, key: str, value: StoredTensor | Other) -> LazyTensor:
        """A tensor of the state dict, or something else in its place."""
        if isinstance(value, Other):
            return LazyTensor((), value.what, unreadable)
        kind = value.storage.kind
        dtype = STORAGES.get(kind.removeprefix("torch.").removesuffix("Storage"))
        if dtype is None:
            return LazyTensor(value.shape, kind, unreadable)
        span = _span(value)
        if value.offset + span > value.storage.count or math.prod(value.shape) > span:
            raise DamagedFile(f"{key} reaches beyond its storage")
        width = stored(dtype).itemsize
        first = self.start(value.storage, width) + value.offset * width
        if value.strides == contiguous(value.shape) or dtype not in FLOATS:
            return lazy(self.source, first, value.shape, dtype)
        read = partial(_strided, self.source, first, span, value.shape, value.strides, dtype)
        return LazyTensor(value.shape, dtype, read)

    def start(self, storage: Storage, width: int) -> int:
        """Where a storage begins, its size checked."""
        info = self.members.get(f"data/{storage.key}")
        if info is None or storage.count * width > info.file_size:
            raise DamagedFile(f"its member data/{storage.key[:20]} is missing or too short")
        # Members are stored as they are, or the file is not torch's.
        return locate_member(self.source, info)


def _span(tensor: StoredTensor) -> int:
    """Elements between a tensor's first and last one, both included."""
    if not math.prod(tensor.shape):
        return 0
    pairs = zip(tensor.shape, tensor.strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def contiguous(shape: Shape) -> Shape:
    """Steps in elements between neighbours along each axis, the last axis fastest."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _strided(
    source: FileBytes, offset: int, span: int, shape: Shape, strides: Shape, dtype: str
) -> Float32:
    flat = read_values(source, offset, (span,), dtype)
    steps = [stride * flat.itemsize for stride in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps))
