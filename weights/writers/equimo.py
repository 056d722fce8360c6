"""Writes an archive in Equimo's 1.x format, which 2.x reads too."""

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np

from weights.containers.equimo import METADATA, WEIGHTS, Pieces
from weights.containers.npy import header
from weights.containers.records import ALTERNATIVES, BLOCK_PREFIX, Part, convnext_rows, vit_rows
from weights.progress import Progress
from weights.writers.items import Item

SCALARS = {
    # Dropout probability, and whether dropout is off.
    "p": header((), "<f8") + np.float64(0).tobytes(),
    "inference": header((), "|b1") + np.bool_(True).tobytes(),
}


def write_archive(
    path: Path, items: Sequence[Item], metadata: Mapping[str, Any], listener: Progress
) -> None:
    """A `.tar.lz4` of the metadata and of the tensors, whose keys are paths in Equimo's tree."""
    text = json.dumps(metadata).encode()
    size = sum(len(head) + (item.size if item else 0) for head, item in records(items))
    with (
        lz4.frame.open(path, "wb", content_checksum=True) as file,
        tarfile.open(fileobj=file, mode="w|", format=tarfile.GNU_FORMAT) as archive,
    ):
        archive.addfile(_member(METADATA, len(text)), BytesIO(text))
        archive.addfile(_member(WEIGHTS, size), Pieces(_content(items, listener)))


def _content(items: Sequence[Item], listener: Progress) -> Iterator[bytes | memoryview]:
    for head, item in records(items):
        yield head
        if item:
            yield item.data()
            listener.step(item.size)


def records(items: Sequence[Item]) -> Iterator[tuple[bytes, Item | None]]:
    """The beginning of every record, and the tensor whose values follow; None for a scalar."""
    tensors = {item.key: item for item in items}
    for name, shape in convnext_rows([item.shape for item in items]) or _vit_rows(tensors):
        if not shape:
            yield SCALARS[name.rpartition(".")[2]], None
        else:
            yield header(tensors[name].shape, "<f4"), tensors[name]


def _vit_rows(keys: Mapping[str, Item]) -> Part:
    """The records of a vision transformer whose arrays are exactly these keys."""
    prefixes = "", BLOCK_PREFIX.format(i=0), ""
    pairs = zip(ALTERNATIVES, prefixes, strict=True)
    before, block, after = (_pick(options, prefix, keys) for options, prefix in pairs)
    return vit_rows(before, block, after, sum(key.endswith(".attn.qkv.weight") for key in keys))


def _pick(options: Sequence[Part], prefix: str, keys: Mapping[str, Item]) -> Part:
    """The part that is there; scalars always are."""
    for part in options:
        if all(prefix + name in keys for name, shape in part if shape):
            return part
    raise KeyError("none of the parts of an Equimo file fits these keys")


def _member(name: str, size: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    return info
