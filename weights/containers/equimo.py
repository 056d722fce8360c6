"""Equimo's checkpoints: `metadata.json` and `weights.eqx`, in a folder or a `.tar.lz4` archive.

Both formats are read: 1.x, and 2.x, whose metadata contains the sha256 of `weights.eqx`. Records
have no names. `leaf_order.record_names` finds the names from the shapes.

Source: `equimo/io.py` (1.1.0), `equimo/serialization.py` (2.7.0).
"""

import hashlib
import os
import re
import tarfile
from collections.abc import Mapping
from io import BufferedReader
from pathlib import Path
from typing import IO, Any

from weights.containers.bounds import check_count
from weights.containers.leaf_order import record_names
from weights.containers.lz4 import Content
from weights.containers.npy import scan_records
from weights.containers.safetensors import parse_object, read_object
from weights.errors import DamagedFile, WrongDigest
from weights.files import PIECE, Bytes, Checkpoint, FileBytes, translate_damage
from weights.tensors import LazyTensor

METADATA = "metadata.json"
WEIGHTS = "weights.eqx"
CHECKSUM = "weights_sha256"

KIND = "Equimo checkpoint"

MAX_METADATA_BYTES = 1 << 20
MAX_MEMBER_BYTES = {METADATA: MAX_METADATA_BYTES, WEIGHTS: 64 << 30}


def read_archive(frame: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Return the checkpoint of a `.tar.lz4` archive, which is decompressed once.

    `frame` is the open file, and `stream` starts at its beginning.

    **Raises** `NotACheckpoint` if the archive is invalid, and `WrongDigest` if the weights do not
    have the recorded digest.
    """
    path = frame.path
    with translate_damage(path, KIND, tarfile.TarError):
        unpacked = Content(stream)
        members: dict[str, tuple[int, int]] = {}
        unpacked.file.seek(0)
        while (info := _next_member(unpacked.file)) is not None:
            if info.name in members:
                raise DamagedFile(f"it has two members {info.name}")
            members[info.name] = start, size = unpacked.file.tell(), info.size
            if size > unpacked.size - start:
                raise DamagedFile("it ends too early")
            unpacked.file.seek(size + -size % tarfile.BLOCKSIZE, os.SEEK_CUR)
        if members.keys() != MAX_MEMBER_BYTES.keys():
            raise DamagedFile(f"{METADATA} or {WEIGHTS} is missing")
        start, size = members[METADATA]
        unpacked.file.seek(start)
        metadata = parse_object(unpacked.file.read(size))
        unpacked.start, size = members[WEIGHTS]
        unpacked.file.seek(unpacked.start)
        tensors = _read_tensors(unpacked.file, size, unpacked, path, metadata)
    return _make_checkpoint(path, "Equimo archive", frame, tensors, metadata)


def _next_member(file: IO[bytes]) -> tarfile.TarInfo | None:
    """Return the header of the next member of a tar archive; None at the end of the archive.

    **Raises** `DamagedFile` if the member is neither the metadata nor the weights, or is too large.
    """
    info = _read_tar_header(file)
    if info is None:
        return None
    if info.type == tarfile.XHDTYPE:
        check_count("an extended header", info.size, MAX_METADATA_BYTES)
        extended = file.read(info.size + -info.size % tarfile.BLOCKSIZE)
        info = _read_tar_header(file)
        if info is None or re.search(rb" (link)?path=", extended):
            raise DamagedFile("an extended header changes the name of a member")
        # The plain header cannot express sizes of 8 GB and more.
        size = re.search(rb"^\d+ size=(\d{1,15})$", extended, re.MULTILINE)
        info.size = int(size[1]) if size else info.size
    # Nothing is extracted, so other members would be harmless. But Equimo does not write them.
    if info.name not in MAX_MEMBER_BYTES or not info.isreg():
        raise DamagedFile(f"it has a member {info.name[:60]!r}, which does not belong there")
    check_count(info.name, info.size, MAX_MEMBER_BYTES[info.name])
    return info


def _read_tar_header(file: IO[bytes]) -> tarfile.TarInfo | None:
    """Return the tar header in the next block of a file; None if the block is empty, which ends the
    archive."""
    block = file.read(tarfile.BLOCKSIZE)
    return tarfile.TarInfo.frombuf(block, "utf-8", "replace") if block.strip(b"\0") else None


def is_extracted(path: Path) -> bool:
    """Return True if the file is `weights.eqx` of an extracted archive, with its metadata beside
    it."""
    return path.name == WEIGHTS and path.with_name(METADATA).is_file()


def read_folder(weights: FileBytes, stream: BufferedReader) -> Checkpoint:
    """Return the checkpoint of an extracted archive. `weights` is the file with the tensors, and
    `stream` starts at its beginning.

    **Raises** `NotACheckpoint` if a file is invalid, and `WrongDigest` if the weights do not have
    the recorded digest.
    """
    path = weights.path.parent
    with translate_damage(path, KIND):
        metadata, size = read_object(path / METADATA), weights.state.size
        tensors = _read_tensors(stream, size, weights, path, metadata)
    return _make_checkpoint(path, "Equimo folder", weights, tensors, metadata)


def _read_tensors(
    stream: IO[bytes], size: int, source: Bytes, path: Path, metadata: Mapping[str, Any]
) -> dict[str, LazyTensor]:
    """Return the arrays of `weights.eqx` by name. Scalars are left out.

    **Arguments:**

    - `stream`: a stream at the beginning of `weights.eqx`.
    - `size`: its number of bytes.
    - `source`: the same bytes, from which values are read later.
    - `path`: the path of the checkpoint, for messages.
    - `metadata`: the metadata, which may contain the sha256 of the bytes.

    **Raises** `WrongDigest` if the metadata contains a digest that differs from that of the bytes,
    and `DamagedFile` or `NotACheckpoint` if the arrays are not those of a known network.
    """
    arrays = [tensor for tensor in scan_records(stream, size, source) if tensor.shape]
    hasher, buffer = hashlib.sha256(), memoryview(bytearray(min(size, PIECE)))
    for offset in range(0, size if CHECKSUM in metadata else 0, PIECE):
        piece = buffer[: size - offset]
        source.read_into(offset, piece)
        hasher.update(piece)
    digest = hasher.hexdigest()
    if (expected := metadata.get(CHECKSUM, digest)) != digest:
        raise WrongDigest(
            f"{path} is damaged: its metadata says that the weights have sha256 {expected!a:.13}…, "
            f"but they have {digest:.12}…: download it again."
        )
    names = record_names([tensor.shape for tensor in arrays])
    return dict(zip(names, arrays, strict=True))


def _make_checkpoint(
    path: Path,
    container: str,
    file: FileBytes,
    tensors: dict[str, LazyTensor],
    settings: Mapping[str, Any],
) -> Checkpoint:
    """Return the checkpoint of these tensors, whose container also names the version of Equimo's
    format."""
    version = "2.x" if "format_version" in settings else "1.x"
    return Checkpoint(path, f"{container}, format {version}", (file,), tensors, settings)
