"""PyTorch checkpoints: a zip archive with a pickle and one member for every storage.

They are read without PyTorch: it takes seconds to import, maps files into memory, and is not
needed for a table of tensors.

Source: `torch/serialization.py`; the archive's form is that of PyTorch 1.6 and later.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from weights.checkpoint import Checkpoint
from weights.containers.pickles import Malformed, Other, Refused, Storage, Tensor, load
from weights.containers.zips import BadMember, locate
from weights.distributions import Float32, Shape
from weights.errors import NotACheckpoint, UnsafeCheckpoint
from weights.files import FileBytes, lazy, read_values
from weights.tensors import FLOATS, LazyTensor

LARGEST_PICKLE = 16 << 20
"""Bytes; a table of 600 tensors takes 0.1 MB."""

# Training scripts save the network inside one of these, next to the optimiser's state.
WRAPPERS = ("teacher", "model", "state_dict")

STORAGES: dict[str, tuple[str, int]] = {
    "torch.FloatStorage": ("float32", 4),
    "torch.HalfStorage": ("float16", 2),
    "torch.BFloat16Storage": ("bfloat16", 2),
    "torch.DoubleStorage": ("float64", 8),
    "torch.LongStorage": ("int64", 8),
    "torch.IntStorage": ("int32", 4),
    "torch.ShortStorage": ("int16", 2),
    "torch.CharStorage": ("int8", 1),
    "torch.ByteStorage": ("uint8", 1),
    "torch.BoolStorage": ("bool", 1),
    "torch.ComplexFloatStorage": ("complex64", 8),
    "torch.ComplexDoubleStorage": ("complex128", 16),
}


def read_pth(path: Path) -> Checkpoint:
    """Tensors of a `.pth` by key, without wrappers and prefixes; nothing in it is executed.

    **Raises** `NotACheckpoint`, `UnsafeCheckpoint`.
    """
    try:
        archive = Archive.open(path)
        content = load(archive.pickle())
    except Refused as error:
        raise UnsafeCheckpoint(
            f"{path} was refused because it holds more than tensors ({error}), and loading it "
            "could run code that it brings along: give a file that holds a state dict only."
        ) from error
    except (zipfile.BadZipFile, NotImplementedError, Malformed, OSError, ValueError) as error:
        raise _damaged(path, "its archive or its table cannot be read") from error
    state = unprefix(unwrap(content))
    tensors = {key: archive.tensor(key, value) for key, value in state.items()}
    return Checkpoint(path, "PyTorch archive", (path,), tensors)


@dataclass(frozen=True)
class Archive:
    """The members of a checkpoint: `<root>/data.pkl`, `<root>/data/0` …"""

    path: Path
    root: str
    members: Mapping[str, zipfile.ZipInfo]

    @classmethod
    def open(cls, path: Path) -> Archive:
        """Read the table of members. **Raises** `zipfile.BadZipFile` if there is none."""
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        members = {info.filename: info for info in infos}
        roots = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
        if len(roots) != 1 or len(members) != len(infos):
            raise _damaged(path, "it has not one table of tensors")
        root = roots[0].removesuffix("data.pkl")
        found = cls(path, root, members)
        if f"{root}byteorder" in members and found.bytes(f"{root}byteorder", 64) != b"little":
            raise _damaged(path, "its numbers are big-endian")
        return found

    def pickle(self) -> bytes:
        """The program that describes the tensors."""
        return self.bytes(f"{self.root}data.pkl", LARGEST_PICKLE)

    def bytes(self, name: str, most: int) -> bytes:
        """The content of a small member."""
        info = self.members[name]
        if info.file_size > most:
            raise _damaged(self.path, f"{name} has {info.file_size} bytes, far too many")
        offset = self.locate(info)
        with self.path.open("rb") as file:
            file.seek(offset)
            return file.read(info.file_size)

    def locate(self, info: zipfile.ZipInfo) -> int:
        """Where a member's bytes begin. They are stored as they are, or the file is not torch's."""
        try:
            return locate(self.path, info)
        except BadMember as error:
            raise _damaged(self.path, str(error)) from error

    def tensor(self, key: str, value: Any) -> LazyTensor:
        """A value of the state dict."""
        if isinstance(value, Other):
            return LazyTensor((), value.what, _unreadable)
        if not isinstance(value, Tensor):
            return LazyTensor((), type(value).__name__, _unreadable)
        dtype, width = STORAGES.get(value.storage.kind, (value.storage.kind, 0))
        if not width:
            return LazyTensor(value.shape, dtype, _unreadable)
        start = self.storage(value.storage, width)
        span = _span(value)
        if value.offset + span > value.storage.count or math.prod(value.shape) > span:
            raise _damaged(self.path, f"{key} reaches beyond its storage")
        source, first = FileBytes(self.path), start + value.offset * width
        if value.strides == _contiguous(value.shape) or dtype not in FLOATS:
            return lazy(source, first, value.shape, dtype)
        read = partial(_strided, source, first, span, value.shape, value.strides, dtype)
        return LazyTensor(value.shape, dtype, read)

    def storage(self, storage: Storage, width: int) -> int:
        """Where a storage begins, its size checked."""
        info = self.members.get(f"{self.root}data/{storage.key}")
        if info is None or storage.count * width > info.file_size:
            raise _damaged(self.path, f"its member data/{storage.key[:20]} is missing or too short")
        return self.locate(info)


def _span(tensor: Tensor) -> int:
    """Elements between a tensor's first and last one, both included."""
    if not math.prod(tensor.shape):
        return 0
    pairs = zip(tensor.shape, tensor.strides, strict=True)
    return 1 + sum((size - 1) * stride for size, stride in pairs)


def _contiguous(shape: Shape) -> Shape:
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
    """Keys without `module.` (data-parallel training) and `backbone.` (training with heads).

    Where some keys lie under `backbone.`, the others are training heads and are left out.
    """
    for prefix in ("module.", "backbone.", "module."):
        inside = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        state = inside or state
    return state


def _unreadable() -> Float32:
    raise TypeError("not a dense tensor of floats; coverage is checked before anything is read")


def _damaged(path: Path, what: str) -> NotACheckpoint:
    return NotACheckpoint(
        f"{path} is damaged or not a PyTorch checkpoint ({what}): download it again, or give "
        "another path."
    )
