"""Checkpoints, and arrays out of files one at a time, without mapping the files into memory.

A mapped file's pages count as the process's memory for as long as the map lives; a model of 27 GB
is to be read in a few hundred MB.
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

import ml_dtypes  # noqa: F401 - numpy learns from it what "bfloat16" and "float8_e5m2" are
import numpy as np

from weights.errors import DamagedFile, NotACheckpoint, WrongDigest
from weights.initializers import Float32, Shape
from weights.mapping import Naming
from weights.opening import State, open_regular
from weights.tensors import FLOATS, LazyTensor

PIECE = 32 << 20
"""Bytes that are hashed or copied at once; a thread that hashes waits for others between two."""


@contextmanager
def sound(path: Path, kind: str, *errors: type[Exception]) -> Generator[None]:
    """Make a sentence of what a reader, or a library's `errors`, finds wrong with a file."""
    caught: tuple[type[Exception], ...] = (DamagedFile, *errors)
    try:
        yield
    except caught as error:
        # Names of members and of types come from the file and may be anything.
        what = ascii(str(error) or "its tables cannot be read")[1:-1][:300]
        raise NotACheckpoint(
            f"{path} is no sound {kind} ({what}): download it again, or give another path."
        ) from error


class Bytes(Protocol):
    """Something that bytes can be read from, in any order."""

    def read_into(self, offset: int, target: memoryview) -> None:
        """Fill `target` with what lies at `offset`."""


if sys.platform == "win32":

    def _read_at(file: FileIO, lock: Lock, offset: int, target: memoryview) -> int:
        """Read bytes at an offset into `target`. Return their number."""
        with lock:
            file.seek(offset)
            return file.readinto(target) or 0

else:  # a forked process would move the position of the file, too

    def _read_at(file: FileIO, lock: Lock, offset: int, target: memoryview) -> int:
        """Read bytes at an offset into `target`. Return their number."""
        return os.preadv(file.fileno(), [target], offset)


class FileBytes:
    """The bytes of a file, which is opened once and stays what it was then.

    Any number of threads and forked processes may read. The file is closed with the last object
    that reads from it, or by `close`.

    **Raises** `NotACheckpoint` while reading if the file is another one by then.
    """

    def __init__(self, path: Path):
        self.path = path
        file = open_regular(path)
        self.state = State.of(file)
        raw = file.detach()
        assert isinstance(raw, FileIO), "of a file in binary mode"
        self._file = raw
        self._lock = Lock()  # where a read moves the position of the file
        self.close = finalize(self, self._file.close)

    def stream(self) -> BufferedReader:
        """Return a stream of the bytes from the first one, with a position of its own."""
        return BufferedReader(_Stream(self))

    def check_unchanged(self) -> None:
        """**Raises** `NotACheckpoint` if the path now names another file, or other content, and
        `OSError` if it names none."""
        if State.at(self.path) != self.state:
            raise NotACheckpoint(
                f"{self.path} was changed while it was read: run the command again once "
                "nothing writes to it."
            )

    def read_some(self, offset: int, target: memoryview) -> int:
        """Read at most as many bytes as `target` has. Return their number, 0 at the end."""
        return _read_at(self._file, self._lock, offset, target)

    def read_into(self, offset: int, target: memoryview) -> None:
        while target:
            count = self.read_some(offset, target)
            if not count:
                raise NotACheckpoint(f"{self.path} ends too early: download it again.")
            target, offset = target[count:], offset + count
        self.check_unchanged()

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes at `offset`, fewer at the end of the file."""
        stream = self.stream()
        stream.seek(offset)
        return stream.read(size)

    def sha256(self, step: Callable[[int], None] | None = None) -> str:
        """Digest of the very bytes that tensors are read from."""
        digest = _digest(_Stream(self), self.state.size, step)
        self.check_unchanged()
        return digest


class _Stream(RawIOBase):
    """The bytes of a file as a stream, which leaves the file open when it is closed."""

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


def stored(dtype: str) -> np.dtype[Any]:
    """How numpy sees numbers of a type in a file: little-endian."""
    return np.dtype(dtype).newbyteorder("<")


def lazy(source: Bytes, offset: int, shape: Shape, dtype: str) -> LazyTensor:
    """A tensor of contiguous values at `offset`."""
    read = partial(read_values, source, offset, shape, dtype) if dtype in FLOATS else unreadable
    return LazyTensor(shape, dtype, read)


def read_values(source: Bytes, offset: int, shape: Shape, dtype: str) -> Float32:
    """The values at `offset` as float32; float32 itself is not copied."""
    values = np.empty(shape, stored(dtype))
    source.read_into(offset, values.reshape(-1).view(np.uint8).data)
    return values.astype(np.float32, copy=False)


def unreadable() -> Float32:
    """`read` of a tensor that holds no weights."""
    raise TypeError("not a dense tensor of floats; coverage is checked before anything is read")


def sha256(path: Path, step: Callable[[int], None] | None = None) -> str:
    """Digest of a file, read in pieces; `step` is told the size of each."""
    with open_regular(path) as file:
        return digest_of(file, step)


def digest_of(file: BufferedReader, step: Callable[[int], None] | None = None) -> str:
    """The sha256 of what is left of an open file; `step` is told the size of each piece."""
    return _digest(file, os.fstat(file.fileno()).st_size, step)


def _digest(file: RawIOBase | BufferedReader, size: int, step: Callable[[int], None] | None) -> str:
    """The sha256 of what is left of a stream whose file has `size` bytes."""
    digest = hashlib.sha256()
    # A megabyte of new memory takes as long as hashing one: a small file gets a small buffer.
    buffer = bytearray(min(max(size, 1 << 16), PIECE))
    while count := file.readinto(buffer):
        digest.update(memoryview(buffer)[:count])
        if step is not None:
            step(count)
    return digest.hexdigest()


# As torch.hub names files. Eight figures alone may be a date.
PROMISE = re.compile(r".*-(?=\d*[a-f])([0-9a-f]{8,64})(\.\w+)+", re.IGNORECASE)


def promised(path: Path) -> str:
    """How the sha256 of a file begins, if its name says so."""
    promise = PROMISE.fullmatch(path.name)
    return promise[1].lower() if promise else ""


def hold_to_name(path: Path, digest: str) -> None:
    """**Raises** `WrongDigest` if the name promises another sha256."""
    if not digest.startswith(promised(path)):
        raise WrongDigest(
            f"{path} is damaged, or another file: its name says that its sha256 begins with "
            f"{promised(path)}, but it is {digest:.12}…: download it again, or rename it if it is "
            "your own."
        )


@dataclass(frozen=True)
class Checkpoint:
    """Contents of a file or folder, tensors unread.

    `container` says how the bytes are kept; `files` are those that hold tensors; `metadata` is
    what the container says about itself; `objects` are values that were walked past: where they
    are, and of which class; `tables` are lists and dictionaries of texts and numbers, such as names
    of classes, by where they are; `unread` are files beside them that may hold networks too;
    `adapter` is the name of the folder of an adapter that was merged into it.

    Where only some of the tensors are a network's (`weights.views`), `tensors` are these, by its
    own names in a `naming`; `prefix` is what comes before them in the file, `head` what the file
    calls the linear layer on top, where that is another name than a publisher's; and `others` are
    the rest. With `head_is_custom` the library of the network does not say what that layer takes;
    `head_is_convolution` says that it is a convolution of 1 x 1. `found` are the views that were
    looked for so far, by naming and by whether they have that layer (`weights.views.views_of`).
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
    others: Mapping[str, LazyTensor] = field(default_factory=dict)
    naming: Naming | None = None
    found: dict[tuple[Naming, bool], tuple[Checkpoint, ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @cached_property
    def leaves(self) -> Mapping[str, str]:
        """The leaves that tensors of a view stand for, by the names of the tensors."""
        if self.naming is None:
            return {}
        leaves = {key: self.naming.leaf(key) for key in self.tensors}
        return {key: leaf for key, leaf in leaves.items() if leaf is not None}

    def close(self) -> None:
        """Close the files. No tensor can be read afterwards."""
        for file in self.files:
            file.close()

    def sha256(self, step: Callable[[int], None] | None = None) -> str:
        """Digest of the file; of the files' names and digests where there are several. `step` is
        told the sizes of the pieces in which they are read. **Raises** `WrongDigest` where the name
        of one of several promises another."""
        if len(self.files) == 1:
            return self.files[0].sha256(step)
        digests = {file.path: file.sha256(step) for file in self.files}
        for path, digest in digests.items():
            hold_to_name(path, digest)
        lines = "".join(f"{digest}  {path.name}\n" for path, digest in digests.items())
        return hashlib.sha256(lines.encode()).hexdigest()
