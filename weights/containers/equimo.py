"""Equimo's checkpoints: `metadata.json` and `weights.eqx`, in a folder or a `.tar.lz4`.

Both formats: 1.x, and 2.x, whose metadata carries the sha256 of `weights.eqx`. Records have no
names; the order of the tree's leaves gives them (`vit_records`, `convnext_records`).

Source: `equimo/io.py` (1.1.0), `equimo/serialization.py` (2.7.0).
"""

from __future__ import annotations

import hashlib
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from weights.checkpoint import Checkpoint
from weights.containers import convnext_records, vit_records
from weights.containers.lz4 import BadFrame, FrameBytes, Place, blocks
from weights.containers.npy import BadRecord, Record, scan
from weights.containers.safetensors import parse_object
from weights.errors import NotACheckpoint, WrongDigest
from weights.files import PIECE, Bytes, FileBytes, lazy

METADATA = "metadata.json"
WEIGHTS = "weights.eqx"
CHECKSUM = "weights_sha256"

LARGEST_METADATA = 1 << 20
LARGEST_WEIGHTS = 64 << 30
TAR_BLOCK = 512


class Pieces:
    """A stream over pieces of bytes; `digest`, once set, takes in what passes."""

    def __init__(self, pieces: Iterator[bytes]):
        self.pieces = pieces
        self.rest = memoryview(b"")
        self.position = 0
        self.digest: hashlib._Hash | None = None

    def take(self, count: int) -> Iterator[memoryview]:
        """The next bytes as they come, fewer only at the end."""
        while count:
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

    def read(self, count: int) -> bytes:
        return b"".join(self.take(count))

    def skip(self, count: int) -> None:
        if sum(len(piece) for piece in self.take(count)) < count:
            raise BadRecord("it ends too early")


@dataclass(frozen=True)
class Content:
    """Metadata and the index of the records, with the digest of the bytes they lie in."""

    metadata: Mapping[str, Any]
    records: tuple[Record, ...]
    source: Bytes
    digest: str | None


def read_archive(path: Path) -> Checkpoint:
    """An archive, decompressed once to find and verify what is in it."""
    try:
        with path.open("rb") as file:
            content = _unpack(path, file)
    except (BadFrame, BadRecord, tarfile.TarError) as error:
        raise _damaged(path, str(error)) from error
    return _checkpoint(path, "Equimo archive", path, content)


def _unpack(path: Path, file: BinaryIO) -> Content:
    places: list[Place] = []
    stream = Pieces(blocks(file, places))
    found: dict[str, Any] = {}
    while (name := _member(path, stream, found)) is not None:
        size = found[name]
        if name == METADATA:
            found[name] = parse_object(path, stream.read(size))
        else:
            start, stream.digest = stream.position, _digest(found.get(METADATA, {CHECKSUM: None}))
            records = tuple(scan(stream, size))
            source = FrameBytes(path, places, start)
            found[name] = (records, source, _hex(stream.digest))
            stream.digest = None
        stream.skip(-size % TAR_BLOCK)
    if set(found) != {METADATA, WEIGHTS}:
        raise BadRecord(f"{METADATA} or {WEIGHTS} is missing")
    for _ in stream.take(LARGEST_METADATA):  # to the end, where the frame's own checksum is
        pass
    return Content(found[METADATA], *found[WEIGHTS])


def _member(path: Path, stream: Pieces, found: dict[str, Any]) -> str | None:
    """The next member's name, its size noted in `found`; None at the archive's end."""
    info = _tar_header(stream)
    if info is None:
        return None
    if info.type == tarfile.XHDTYPE and info.size <= LARGEST_METADATA:
        extended = stream.read(info.size + -info.size % TAR_BLOCK)
        info = _tar_header(stream)
        if info is None or re.search(rb"\d+ (link)?path=", extended):
            raise _damaged(path, "it has a member whose name is not what it seems")
        # Where the plain header has no room for the size of 8 GB and more.
        size = re.search(rb"^\d+ size=(\d{1,15})$", extended, re.MULTILINE)
        info.size = int(size[1]) if size else info.size
    # Nothing is ever extracted, but an archive with other members is not what it says.
    if info.name not in (METADATA, WEIGHTS) or info.name in found or not info.isreg():
        raise _damaged(path, f"it has a member {info.name[:60]!r}, which does not belong there")
    limit = LARGEST_METADATA if info.name == METADATA else LARGEST_WEIGHTS
    if not 0 <= info.size <= limit:
        raise _damaged(path, f"{info.name} claims {info.size} bytes")
    found[info.name] = info.size
    return info.name


def _digest(metadata: Mapping[str, Any]) -> hashlib._Hash | None:
    """A digest to fill, where there is one to compare it with."""
    return hashlib.sha256() if CHECKSUM in metadata else None


def _hex(digest: hashlib._Hash | None) -> str | None:
    return None if digest is None else digest.hexdigest()


def _tar_header(stream: Pieces) -> tarfile.TarInfo | None:
    block = stream.read(TAR_BLOCK)
    return tarfile.TarInfo.frombuf(block, "utf-8", "strict") if block.strip(b"\0") else None


def read_folder(path: Path) -> Checkpoint:
    """An archive that was extracted."""
    metadata, weights = path / METADATA, path / WEIGHTS
    if metadata.stat().st_size > LARGEST_METADATA:
        raise _damaged(path, f"{METADATA} is far too large")
    table = parse_object(metadata, metadata.read_bytes())
    with weights.open("rb") as file:
        stream = Pieces(iter(lambda: file.read(PIECE), b""))
        stream.digest = digest = _digest(table)
        try:
            records = tuple(scan(stream, weights.stat().st_size))
        except BadRecord as error:
            raise _damaged(weights, str(error)) from error
    content = Content(table, records, FileBytes(weights), _hex(digest))
    return _checkpoint(path, "Equimo folder", weights, content)


def _checkpoint(path: Path, container: str, file: Path, content: Content) -> Checkpoint:
    expected = content.metadata.get(CHECKSUM, content.digest)
    if expected != content.digest:
        raise WrongDigest(
            f"{path} is damaged: its metadata tells of weights with sha256 {expected!s:.12}…, "
            f"these have {content.digest!s:.12}…: download it again."
        )
    version = "2.x" if "format_version" in content.metadata else "1.x"
    arrays = [record for record in content.records if record.shape]
    shapes = [record.shape for record in arrays]
    names = convnext_records.record_names(shapes) or vit_records.record_names(shapes)
    tensors = {
        name: lazy(content.source, record.offset, record.shape, record.dtype)
        for name, record in zip(names, arrays, strict=True)
    }
    return Checkpoint(path, f"{container}, format {version}", (file,), tensors, content.metadata)


def _damaged(path: Path, what: str) -> NotACheckpoint:
    return NotACheckpoint(
        f"{path} is no sound Equimo checkpoint ({what}): download it again, or give another path."
    )
