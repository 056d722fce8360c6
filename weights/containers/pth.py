"""PyTorch checkpoints: a zip archive with a pickle, and one member for each storage.

They are read without PyTorch, which takes seconds to import and maps files into memory.

Source: `torch/serialization.py`. The layout of the archive is that of PyTorch 1.6 and later.
"""

import math
import re
import zipfile
from collections.abc import Mapping
from functools import partial

import numpy as np

from weights.containers.bounds import MAX_TABLE_BYTES, MAX_TENSORS, check_count
from weights.containers.nested import collect_tensors, find_tables
from weights.containers.pickles import Storage, StoredTensor, UnknownObject, unpickle
from weights.containers.zips import ERRORS, locate_member
from weights.errors import DamagedFile, NotACheckpoint, UnsafeCheckpoint
from weights.files import (
    Checkpoint,
    FileBytes,
    lazy_tensor,
    raise_unreadable,
    read_values,
    stored_dtype,
    translate_damage,
)
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor

TENSORS = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
"""Names of the checkpoint in folders of transformers and timm before safetensors: of a single file,
and of the index of several."""

STORAGES = {
    **{"Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Double": "float64"},
    **{"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8"},
    **{"Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"},
}


def read_pth(source: FileBytes, members: Mapping[str, zipfile.ZipInfo]) -> Checkpoint:
    """Return the checkpoint of the `.pth` file `source`. Nothing in the file is executed.

    Tensors are named by their path in the saved value, such as `teacher.backbone.norm.weight`.
    `members` are the members of the zip archive by name.

    **Raises** `NotACheckpoint` if the file is invalid or the names of all tensors are numbers, and
    `UnsafeCheckpoint` if the saved value is an object, or contains objects but no tensors.
    """
    path = source.path
    with translate_damage(path, "PyTorch checkpoint", *ERRORS):
        archive = Archive(source, members)
        content = unpickle(archive.read_member("data.pkl", MAX_TABLE_BYTES))
        state, objects = collect_tensors(content)
        tables = find_tables(content)
        check_count("its table (in tensors)", len(state), MAX_TENSORS)
        tensors = {key: archive.find_tensor(key, value) for key, value in state.items()}
    if isinstance(content, UnknownObject) or (objects and not tensors):
        classes = (
            content.description
            if isinstance(content, UnknownObject)
            else ", ".join({*objects.values()})
        )
        raise UnsafeCheckpoint(
            f"{path} contains objects ({classes[:200]}) and no tensors. Loading objects could run "
            "code of the file: load it where their classes are known, and save the tensors with "
            "`torch.save(model.state_dict(), PATH)`."
        )
    if not any(re.search(r"[^\d.]", key) for key in tensors):
        raise NotACheckpoint(
            f"{path} contains a {type(content).__name__}, not a table of named tensors: give a "
            "file that contains a state dict."
        )
    return Checkpoint(path, "PyTorch archive", (source,), tensors, objects=objects, tables=tables)


class Archive:
    """Members of the zip archive of a PyTorch checkpoint: `<root>/data.pkl`, `<root>/data/0`, ….
    `members` has them by their names without the root."""

    def __init__(self, source: FileBytes, members: Mapping[str, zipfile.ZipInfo]):
        """Find the root folder in the archive. **Raises** `DamagedFile` if there is not exactly one
        `data.pkl`, or if the numbers are big-endian."""
        roots = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(roots) != 1:
            raise DamagedFile("it does not contain exactly one data.pkl")
        root = roots[0].removesuffix("data.pkl")
        self.source = source
        self.members = {name.removeprefix(root): info for name, info in members.items()}
        if "byteorder" in self.members and self.read_member("byteorder", 64) != b"little":
            raise DamagedFile("its numbers are big-endian")

    def read_member(self, name: str, limit: int) -> bytes:
        """Return the content of the member with this name, without the root. **Raises**
        `DamagedFile` if it is compressed or has more than `limit` bytes, and `KeyError` if there is
        no such member."""
        info = self.members[name]
        if info.file_size > limit:
            raise DamagedFile(f"{name} has {info.file_size} bytes; the limit is {limit}")
        content = bytearray(info.file_size)
        self.source.read_into(locate_member(self.source, info), memoryview(content))
        return bytes(content)

    def find_tensor(self, key: str, value: StoredTensor | UnknownObject) -> LazyTensor:
        """Return the tensor of an entry of the state dict, without its values.

        An entry that is not a dense tensor of floats gets a tensor that cannot be read. `key` is
        its name, for the message.

        **Raises** `DamagedFile` if the tensor is not within its storage.
        """
        if isinstance(value, UnknownObject):
            return LazyTensor((), value.description, raise_unreadable)
        kind = value.storage.kind
        dtype = STORAGES.get(kind.removeprefix("torch.").removesuffix("Storage"))
        if dtype is None:
            return LazyTensor(value.shape, kind, raise_unreadable)
        span = _span(value)
        if value.offset + span > value.storage.count or math.prod(value.shape) > span:
            raise DamagedFile(f"{key} reaches beyond its storage")
        width = stored_dtype(dtype).itemsize
        first = self.storage_offset(value.storage, width) + value.offset * width
        if value.strides == contiguous_strides(value.shape) or dtype not in FLOATS:
            return lazy_tensor(self.source, first, value.shape, dtype)
        read_member = partial(
            _read_strided, self.source, first, span, value.shape, value.strides, dtype
        )
        return LazyTensor(value.shape, dtype, read_member)

    def storage_offset(self, storage: Storage, width: int) -> int:
        """Return the position of a storage's first byte in the file.

        `width` is the size of an element in bytes. **Raises** `DamagedFile` if the member is
        missing, compressed or too short.
        """
        info = self.members.get(f"data/{storage.key}")
        if info is None or storage.count * width > info.file_size:
            raise DamagedFile(f"its member data/{storage.key[:20]} is missing or too short")
        # PyTorch does not compress members, so a compressed one is an error.
        return locate_member(self.source, info)


def _span(tensor: StoredTensor) -> int:
    """Return the number of elements of the storage from the first to the last element of a tensor,
    both included; 0 for an empty tensor."""
    if not math.prod(tensor.shape):
        return 0
    pairs = zip(tensor.shape, tensor.strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def contiguous_strides(shape: Shape) -> Shape:
    """Return the strides, in elements, of a contiguous array of this shape, whose last axis varies
    fastest."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def _read_strided(
    source: FileBytes, offset: int, span: int, shape: Shape, strides: Shape, dtype: str
) -> Float32:
    """Return the values of a tensor that is not contiguous, as float32.

    **Arguments:**

    - `offset`: the position of its first byte in the file.
    - `span`: the number of elements, from there, that contain the tensor.
    - `strides`: the steps along each axis, in elements.
    - `dtype`: the dtype in the file.
    """
    flat = read_values(source, offset, (span,), dtype)
    steps = [stride * flat.itemsize for stride in strides]
    return np.ascontiguousarray(np.lib.stride_tricks.as_strided(flat, shape, steps))
