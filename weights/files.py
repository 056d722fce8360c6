"""Read checkpoints and arrays from files without mapping the files into memory.

The pages of a mapped file count as memory of the process as long as the map exists. A model of 27
GB is to be read in a few hundred MB.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from io import BufferedReader, FileIO, RawIOBase
from pathlib import Path
from threading import Lock
from typing import Any, Protocol
from weakref import finalize

import ml_dtypes  # noqa: F401 - registers "bfloat16" and "float8_e5m2" with numpy
import numpy as np

from weights.errors import DamagedFile, NotACheckpoint, WrongDigest
from weights.initializers import Float32, Shape
from weights.mapping import Naming
from weights.opening import State, open_regular
from weights.tensors import FLOATS, LazyTensor

PIECE = 32 << 20
"""Bytes that are hashed or copied at once. Between two pieces a thread can be stopped."""


@contextmanager
def translate_damage(path: Path, kind: str, *errors: type[Exception]) -> Generator[None]:
    """Run a block, and raise `NotACheckpoint` in place of a `DamagedFile` or of one of these other
    errors.

    Other exceptions are raised unchanged, also a `NotACheckpoint` that is not a `DamagedFile`.

    **Arguments:**

    - `path`: the file that the block reads.
    - `kind`: the kind of file, for the message: "PATH is not a valid KIND (…)". The text of the
      error stands in the parentheses.
    - `errors`: further types of errors that mean that the file is damaged.
    """
    caught: tuple[type[Exception], ...] = (DamagedFile, *errors)
    try:
        yield
    except caught as error:
        # The text may contain names from the file, so it is escaped and cut off.
        reason = ascii(str(error) or "its tables cannot be read")[1:-1][:300]
        raise NotACheckpoint(
            f"{path} is not a valid {kind} ({reason}): download it again, or give another path."
        ) from error


class Bytes(Protocol):
    """Source of bytes that can be read at any offset."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes at `offset`."""


if sys.platform == "win32":

    def _read_at(file: FileIO, lock: Lock, offset: int, target: memoryview) -> int:
        """Read bytes at an offset into `target`. Return the number of bytes."""
        with lock:
            file.seek(offset)
            return file.readinto(target) or 0

else:  # a forked process shares the position of the file, so it is not used

    def _read_at(file: FileIO, lock: Lock, offset: int, target: memoryview) -> int:
        """Read bytes at an offset into `target`. Return the number of bytes."""
        return os.preadv(file.fileno(), [target], offset)


class FileBytes:
    """Bytes of a file that is opened once and must not change afterwards.

    Several threads and forked processes may read at the same time. The file is closed by `close`,
    or with the last object that reads from it.

    `read_into` and `sha256` **raise** `NotACheckpoint` if the file was changed or replaced after it
    was opened. The other methods that read do not check this.
    """

    def __init__(self, path: Path):
        """Open the file at a path. **Raises** `OSError` if it cannot be read or is not a regular
        file."""
        self.path = path
        file = open_regular(path)
        self.state = State.of(file)
        raw = file.detach()
        assert isinstance(raw, FileIO), "of a file in binary mode"
        self._file = raw
        self._lock = Lock()  # for systems on which a read moves the position of the file
        self.close = finalize(self, self._file.close)

    def stream(self) -> BufferedReader:
        """Return a stream that starts at the first byte and has its own position. Closing it does
        not close the file."""
        return BufferedReader(_Stream(self))

    def check_unchanged(self) -> None:
        """Raise `NotACheckpoint` unless the path still names the file that was opened, with the
        same size and modification time. **Raises** `OSError` if there is no file at the path."""
        if State.at(self.path) != self.state:
            raise NotACheckpoint(
                f"{self.path} was changed while it was read: run the command again once "
                "nothing writes to it."
            )

    def read_some(self, offset: int, target: memoryview) -> int:
        """Fill `target`, or the beginning of it, with the bytes at `offset`. Return the number of
        bytes, which is 0 at the end of the file."""
        return _read_at(self._file, self._lock, offset, target)

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with the bytes at `offset`. **Raises** `NotACheckpoint` if the file ends
        too early or was changed."""
        while target:
            count = self.read_some(offset, target)
            if not count:
                raise NotACheckpoint(f"{self.path} ends too early: download it again.")
            target, offset = target[count:], offset + count
        self.check_unchanged()

    def read(self, offset: int, size: int) -> bytes:
        """Return the `size` bytes that begin at `offset`, or fewer at the end of the file."""
        stream = self.stream()
        stream.seek(offset)
        return stream.read(size)

    def sha256(self, step: Callable[[int], None] | None = None) -> str:
        """Return the sha256 of the open file. `step`, if given, is called after each piece with its
        number of bytes. **Raises** `NotACheckpoint` if the file was changed."""
        digest = _hash_stream(_Stream(self), self.state.size, step)
        self.check_unchanged()
        return digest


class _Stream(RawIOBase):
    """Stream of the bytes of a file, with its own position. Closing it leaves the file open."""

    def __init__(self, source: FileBytes):
        self.source, self.position = source, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        starts = {os.SEEK_CUR: self.position, os.SEEK_END: self.source.state.size}
        if (position := starts.get(whence, 0) + offset) < 0:
            raise ValueError("a position before the beginning")
        self.position = position
        return position

    def readinto(self, target: Any, /) -> int:
        count = self.source.read_some(self.position, memoryview(target).cast("B"))
        self.position += count
        return count


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """Return numpy's little-endian dtype for a dtype name, such as `float32` or `bfloat16`."""
    return np.dtype(dtype).newbyteorder("<")


def lazy_tensor(source: Bytes, offset: int, shape: Shape, dtype: str) -> LazyTensor:
    """Return a tensor whose values are contiguous in a file.

    Each call of its `read` reads the values from the file. It raises `TypeError` if `dtype` is not
    one of `FLOATS`.

    **Arguments:**

    - `source`: the bytes of the file.
    - `offset`: the position of the tensor's first byte.
    - `dtype`: the dtype in the file.
    """
    read = (
        partial(read_values, source, offset, shape, dtype) if dtype in FLOATS else raise_unreadable
    )
    return LazyTensor(shape, dtype, read)


def read_values(source: Bytes, offset: int, shape: Shape, dtype: str) -> Float32:
    """Read the values of a tensor of this shape from a file, and return them as float32.

    `offset` is the position of its first byte in `source`, and `dtype` its dtype there. Values of
    other dtypes are converted.
    """
    values = np.empty(shape, stored_dtype(dtype))
    source.read_into(offset, values.reshape(-1).view(np.uint8).data)
    return values.astype(np.float32, copy=False)


def raise_unreadable() -> Float32:
    """Raise `TypeError`. This is the `read` function of a tensor that contains no weights."""
    raise TypeError("not a dense tensor of floats; coverage is checked before anything is read")


def sha256(path: Path, step: Callable[[int], None] | None = None) -> str:
    """Return the sha256 of a file. `step`, if given, is called after each piece with its number of
    bytes."""
    with open_regular(path) as file:
        return hash_open_file(file, step)


def hash_open_file(file: BufferedReader, step: Callable[[int], None] | None = None) -> str:
    """Return the sha256 of the remaining bytes of an open file. `step`, if given, is called after
    each piece with its number of bytes."""
    return _hash_stream(file, os.fstat(file.fileno()).st_size, step)


def _hash_stream(
    file: RawIOBase | BufferedReader, size: int, step: Callable[[int], None] | None
) -> str:
    """Return the sha256 of the remaining bytes of a stream.

    `size` is the size of its file, by which the size of pieces is chosen. `step`, if not None, is
    called after each piece with its number of bytes.
    """
    digest = hashlib.sha256()
    # Allocating a megabyte takes as long as hashing one, so the buffer is not larger than the file.
    buffer = bytearray(min(max(size, 1 << 16), PIECE))
    while count := file.readinto(buffer):
        digest.update(memoryview(buffer)[:count])
        if step is not None:
            step(count)
    return digest.hexdigest()


# File names of torch.hub contain the digest. Eight decimal digits are not one: they may be a date.
DIGEST_IN_NAME = re.compile(r".*-(?=\d*[a-f])([0-9a-f]{8,64})(\.\w+)+", re.IGNORECASE)


def digest_in_name(path: Path) -> str:
    """Return the digits at the beginning of a sha256 that a file's name contains, in lower case;
    empty if it contains none.

    Names of torch.hub have 8 to 64 hexadecimal digits, of which at least one is a letter, between a
    hyphen and the ending: `dinov2-0a1b2c3d.pth`.
    """
    promise = DIGEST_IN_NAME.fullmatch(path.name)
    return promise[1].lower() if promise else ""


def check_digest_in_name(path: Path, digest: str) -> None:
    """Raise `WrongDigest` if `digest`, the sha256 of a file, does not begin with the digits in the
    file's name (`digest_in_name`). A name without such digits is accepted."""
    if not digest.startswith(digest_in_name(path)):
        raise WrongDigest(
            f"{path} is damaged, or another file: its name says that its sha256 begins with "
            f"{digest_in_name(path)}, but it is {digest:.12}…: download it again, or rename it if "
            "it is your own."
        )


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint, a file or folder. The values of its tensors are not read.

    **Arguments:**

    - `path`: path of the file or folder.
    - `container`: description of the format.
    - `files`: files that contain tensors.
    - `tensors`: tensors by name.
    - `metadata`: metadata of the format.
    - `objects`: class names of the objects that were skipped, by path.
    - `tables`: lists and dictionaries of strings and numbers, such as class names, by path.
    - `unread`: names of other files in the folder that may contain networks.
    - `adapter`: name of the folder of an adapter that was merged into the tensors.
    - `view_cache`: views of this checkpoint that have been searched, by naming and by whether they
      include the linear layer.

    A view is a checkpoint that contains only the tensors of one network (see `weights.views`). For
    it:

    - `tensors`: the tensors of the network, by their names in `naming`.
    - `naming`: the naming of the network. None for a checkpoint that is not a view.
    - `prefix`: prefix of the network's names in the file.
    - `head`: name of the custom linear layer on the network in the file; empty if there is none. If
      a merged adapter has a new head, also a checkpoint that is not a view has its name here.
    - `head_is_custom`: whether the layer is custom, so that the library of the network does not
      determine its input.
    - `head_is_convolution`: whether the layer is a 1 x 1 convolution.
    - `other_tensors`: the remaining tensors of the file, by their names in the file.
    """

    path: Path
    container: str
    files: tuple[FileBytes, ...]
    tensors: Mapping[str, LazyTensor]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    objects: Mapping[str, str] = field(default_factory=dict)
    tables: Mapping[str, Any] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    adapter: str = ""
    prefix: str = ""
    head: str = ""
    head_is_custom: bool = False
    head_is_convolution: bool = False
    other_tensors: Mapping[str, LazyTensor] = field(default_factory=dict)
    naming: Naming | None = None
    view_cache: dict[tuple[Naming, bool], tuple[Checkpoint, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def leaves(self) -> Mapping[str, str]:
        """Leaf of the model for each tensor of a view, by tensor name. Tensors that belong to no
        leaf are left out. Empty for a checkpoint that is not a view."""
        if self.naming is None:
            return {}
        leaves = {key: self.naming.find_leaf(key) for key in self.tensors}
        return {key: leaf for key, leaf in leaves.items() if leaf is not None}

    def close(self) -> None:
        """Close the files. Tensors cannot be read afterwards."""
        for file in self.files:
            file.close()

    def sha256(self, step: Callable[[int], None] | None = None) -> str:
        """Return the sha256 of the file. For several files, return a digest of their names and
        digests.

        `step`, if given, is called after each piece with its number of bytes.

        **Raises** `WrongDigest` if there are several files and the name of one contains another
        digest. The name of a single file is not checked.
        """
        if len(self.files) == 1:
            return self.files[0].sha256(step)
        digests = {file.path: file.sha256(step) for file in self.files}
        for path, digest in digests.items():
            check_digest_in_name(path, digest)
        lines = "".join(f"{digest}  {path.name}\n" for path, digest in digests.items())
        return hashlib.sha256(lines.encode()).hexdigest()
