"""Equimo's checkpoints: `metadata.json` and `weights.eqx`, in a folder or a `.tar.lz4`.

Both formats: 1.x, and 2.x, whose metadata carries the sha256 of `weights.eqx`. Records have no
names; the order of the tree's leaves gives them (`records`).

Source: `equimo/io.py` (1.1.0), `equimo/serialization.py` (2.7.0).
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from weights.containers.bounds import within
from weights.containers.leaf_order import record_names
from weights.containers.lz4 import Content
from weights.containers.npy import scan
from weights.containers.safetensors import parse_object, read_object
from weights.errors import Damaged, WrongDigest
from weights.files import PIECE, Bytes, Checkpoint, FileBytes, sound
from weights.tensors import LazyTensor

METADATA = "metadata.json"
WEIGHTS = "weights.eqx"
CHECKSUM = "weights_sha256"

KIND = "Equimo checkpoint"

LARGEST_METADATA = 1 << 20
LARGEST = {METADATA: LARGEST_METADATA, WEIGHTS: 64 << 30}
TAR_BLOCK = 512

Records = tuple[list[LazyTensor], str | None]


class Pieces:
    """A stream over pieces of bytes; `digest`, once set, takes in what passes."""

    def __init__(self, pieces: Iterator[bytes | memoryview]):
        self.pieces = pieces
        self.rest = memoryview(b"")
        self.position = 0
        self.digest: hashlib._Hash | None = None

    def take(self, count: int) -> Iterator[memoryview]:
        """The next bytes as they come, fewer only at the end."""
        while count > 0:
            if not self.rest:
                self.rest = memoryview(next(self.pieces, b""))
                if not self.rest:
                    return
            piece, self.rest = self.rest[:count], self.rest[count:]
            count -= len(piece)
            self.position += len(piece)
            if self.digest is not None:
                self.digest.update(piece)
            yield piece

    def read(self, count: int = PIECE, /) -> bytes:
        return b"".join(self.take(count))

    def seek(self, offset: int, whence: int, /) -> int:
        """Pass over bytes: there is no other way than on from here, `SEEK_CUR`."""
        if sum(len(piece) for piece in self.take(offset)) < offset:
            raise Damaged("it ends too early")
        return self.position


def read_archive(path: Path) -> Checkpoint:
    """An archive, decompressed once."""
    unpacked = Content()
    metadata: dict[str, Any] | None = None
    records: Records | None = None
    frame = FileBytes(path)
    with sound(path, KIND, tarfile.TarError), frame.opened() as file:
        stream = Pieces(unpacked.fill(file))
        while (info := _member(stream)) is not None:
            if info.name == METADATA and metadata is None:
                metadata = parse_object(stream.read(info.size))
            elif info.name == WEIGHTS and records is None:
                unpacked.start = stream.position
                records = _scan(stream, info.size, unpacked, metadata)
            else:
                raise Damaged(f"it has two members {info.name}")
            stream.seek(-info.size % TAR_BLOCK, os.SEEK_CUR)
        if metadata is None or records is None:
            raise Damaged(f"{METADATA} or {WEIGHTS} is missing")
        for _ in stream.take(LARGEST_METADATA):  # to the end, where the frame's own checksum is
            pass
    return _checkpoint(path, "Equimo archive", frame, metadata, records)


def _member(stream: Pieces) -> tarfile.TarInfo | None:
    """The next member; None at the archive's end."""
    info = _tar_header(stream)
    if info is None:
        return None
    if info.type == tarfile.XHDTYPE:
        within("an extended header", info.size, LARGEST_METADATA)
        extended = stream.read(info.size + -info.size % TAR_BLOCK)
        info = _tar_header(stream)
        if info is None or re.search(rb" (link)?path=", extended):
            raise Damaged("it has a member whose name is not what it seems")
        # Where the plain header has no room for the size of 8 GB and more.
        size = re.search(rb"^\d+ size=(\d{1,15})$", extended, re.MULTILINE)
        info.size = int(size[1]) if size else info.size
    # Nothing is ever extracted, but an archive with other members is not what it says.
    if info.name not in LARGEST or not info.isreg():
        raise Damaged(f"it has a member {info.name[:60]!r}, which does not belong there")
    within(info.name, info.size, LARGEST[info.name])
    return info


def _tar_header(stream: Pieces) -> tarfile.TarInfo | None:
    block = stream.read(TAR_BLOCK)
    return tarfile.TarInfo.frombuf(block, "utf-8", "replace") if block.strip(b"\0") else None


def read_folder(path: Path) -> Checkpoint:
    """An archive that was extracted."""
    weights = FileBytes(path / WEIGHTS)
    with sound(path, KIND), weights.opened() as file:
        metadata = read_object(path / METADATA)
        stream = Pieces(iter(lambda: file.read(PIECE), b""))
        records = _scan(stream, weights.state.size, weights, metadata)
    return _checkpoint(path, "Equimo folder", weights, metadata, records)


def _scan(stream: Pieces, size: int, source: Bytes, metadata: Mapping[str, Any] | None) -> Records:
    """The records, and the digest of their bytes where there may be one to compare it with."""
    wanted = metadata is None or CHECKSUM in metadata
    stream.digest = digest = hashlib.sha256() if wanted else None
    tensors = list(scan(stream, size, source))
    stream.digest = None
    return tensors, None if digest is None else digest.hexdigest()


def _checkpoint(
    path: Path, container: str, file: FileBytes, metadata: Mapping[str, Any], records: Records
) -> Checkpoint:
    found, digest = records
    expected = metadata.get(CHECKSUM, digest)
    if expected != digest:
        raise WrongDigest(
            f"{path} is damaged: its metadata tells of weights with sha256 {expected!a:.13}…, "
            f"these have {digest!s:.12}…: download it again."
        )
    version = "2.x" if "format_version" in metadata else "1.x"
    arrays = [tensor for tensor in found if tensor.shape]
    names = record_names([tensor.shape for tensor in arrays])
    tensors = dict(zip(names, arrays, strict=True))
    return Checkpoint(path, f"{container}, format {version}", (file,), tensors, metadata)
