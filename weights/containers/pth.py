"""PyTorch checkpoints: a zip archive with a pickle and one member for every storage.

They are read without PyTorch: it takes seconds to import, maps files into memory, and is not
needed for a table of tensors.

Source: `torch/serialization.py`; the archive's form is that of PyTorch 1.6 and later.
"""

import math
import zipfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weights.containers.bounds import LARGEST_TABLE, MOST_TENSORS, within
from weights.containers.pickles import Other, Refused, Storage, StoredTensor, unpickle
from weights.containers.zips import ERRORS, locate_member
from weights.errors import Damaged, NotACheckpoint, UnsafeCheckpoint
from weights.files import Checkpoint, FileBytes, lazy, read_values, sound, stored, unreadable
from weights.initializers import Float32, Shape
from weights.tensors import FLOATS, LazyTensor

TENSORS = "pytorch_model.bin"
"""What transformers and timm called the file before there were safetensors."""

# Training scripts save the network inside one of these, next to the optimiser's state.
WRAPPERS = ("teacher", "model", "state_dict")

# Of `_LinearClassifierWrapper` in `hub/classifiers.py` of facebookresearch/dinov2 and /dinov3.
HEAD_KEYS = ("linear_head.weight", "linear_head.bias")

STORAGES = {
    **{"Float": "float32", "Half": "float16", "BFloat16": "bfloat16", "Double": "float64"},
    **{"Long": "int64", "Int": "int32", "Short": "int16", "Char": "int8"},
    **{"Byte": "uint8", "Bool": "bool", "ComplexFloat": "complex64", "ComplexDouble": "complex128"},
}


def read_pth(path: Path, members: Mapping[str, zipfile.ZipInfo]) -> Checkpoint:
    """Tensors of a `.pth` by key, without wrappers and prefixes; nothing in it is executed.
    **Raises** `NotACheckpoint`, `UnsafeCheckpoint`."""
    source = FileBytes(path)
    with sound(path, "PyTorch checkpoint", *ERRORS):
        archive = Archive(source, members)
        try:
            content = unpickle(archive.read("data.pkl", LARGEST_TABLE))
        except Refused as error:
            raise UnsafeCheckpoint(
                f"{path} was refused because it holds more than tensors ({error}), and loading it "
                "could run code that it brings along: give a file that holds a state dict only."
            ) from error
        state = unprefix(unwrap(content))
        within("its table (in tensors)", len(state), MOST_TENSORS)
        tensors = {key: archive.tensor(key, value) for key, value in state.items()}
    return Checkpoint(path, "PyTorch archive", (source,), tensors)


class Archive:
    """The members of a checkpoint: `<root>/data.pkl`, `<root>/data/0` …"""

    def __init__(self, source: FileBytes, members: Mapping[str, zipfile.ZipInfo]):
        roots = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(roots) != 1:
            raise Damaged("it has not one table of tensors")
        root = roots[0].removesuffix("data.pkl")
        self.source = source
        self.members = {name.removeprefix(root): info for name, info in members.items()}
        if "byteorder" in self.members and self.read("byteorder", 64) != b"little":
            raise Damaged("its numbers are big-endian")

    def read(self, name: str, most: int) -> bytes:
        """The content of a small member."""
        info = self.members[name]
        if info.file_size > most:
            raise Damaged(f"{name} has {info.file_size} bytes, far too many")
        content = bytearray(info.file_size)
        self.source.read_into(locate_member(self.source.path, info), memoryview(content))
        return bytes(content)

    def tensor(self, key: str, value: Any) -> LazyTensor:
        """A value of the state dict."""
        if not isinstance(value, StoredTensor):
            what = value.what if isinstance(value, Other) else type(value).__name__
            return LazyTensor((), what, unreadable)
        kind = value.storage.kind
        dtype = STORAGES.get(kind.removeprefix("torch.").removesuffix("Storage"))
        if dtype is None:
            return LazyTensor(value.shape, kind, unreadable)
        span = _span(value)
        if value.offset + span > value.storage.count or math.prod(value.shape) > span:
            raise Damaged(f"{key} reaches beyond its storage")
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
            raise Damaged(f"its member data/{storage.key[:20]} is missing or too short")
        # Members are stored as they are, or the file is not torch's.
        return locate_member(self.source.path, info)


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


def unwrap(content: object) -> dict[str, Any]:
    """The innermost state dict of what a training script saved."""
    # Nobody wraps more often, and a table that holds itself would never end.
    for _ in range(len(WRAPPERS)):
        if not isinstance(content, dict):
            break
        inner = [content[name] for name in WRAPPERS if isinstance(content.get(name), Mapping)]
        content = inner[0] if inner else content
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise NotACheckpoint(
            f"the file holds a {type(content).__name__} and no table of named tensors: "
            "give a file that holds a state dict."
        )
    return content


def unprefix(state: dict[str, Any]) -> dict[str, Any]:
    """Keys without `module.` (data-parallel training) and `backbone.` (training with heads). Where
    some keys lie under `backbone.`, the others are training heads and are left out, but the one
    that torch.hub puts on a backbone."""
    for prefix in ("module.", "backbone.", "module."):
        inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        if inside:
            inside |= {key: state[key] for key in HEAD_KEYS if key in state}
        state = inside or state
    return state
