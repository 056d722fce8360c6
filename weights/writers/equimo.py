"""Writes an archive in Equimo's 1.x format, which 2.x reads too."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np

from weights.containers import convnext_records
from weights.containers.equimo import METADATA, TAR_BLOCK, WEIGHTS
from weights.containers.npy import header
from weights.containers.vit_records import AFTER, BEFORE, BLOCK, BLOCK_PREFIX, QKV_BIAS, Layout, Row
from weights.progress import Progress
from weights.writers.item import Item

TAR_RECORD = 20 * TAR_BLOCK

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
    with lz4.frame.open(path, "wb", content_checksum=True) as file:
        file.write(_member(METADATA, len(text)) + _padded(text))
        file.write(_member(WEIGHTS, size))
        for head, item in records(items):
            file.write(head)
            if item:
                file.write(item.data())
                listener.step(item.size)
        whole = len(_member(METADATA, 0)) + len(_member(WEIGHTS, size))
        whole += len(_padded(text)) + size + -size % TAR_BLOCK + 2 * TAR_BLOCK
        file.write(bytes(-size % TAR_BLOCK + 2 * TAR_BLOCK + -whole % TAR_RECORD))


def records(items: Sequence[Item]) -> Iterator[tuple[bytes, Item | None]]:
    """The beginning of every record, and the tensor whose values follow; None for a scalar."""
    tensors = {item.key: item for item in items}
    convnext = convnext_records.expected([item.shape for item in items])
    for name, shape in convnext or layout(tensors).rows():
        if not shape:
            yield SCALARS[name.rpartition(".")[2]], None
        else:
            yield header(tensors[name].shape, "<f4"), tensors[name]


def layout(keys: Mapping[str, Item]) -> Layout:
    """The layout whose arrays are exactly these keys."""
    first = BLOCK_PREFIX.format(i=0)
    choice = [_pick(options, "", keys) for options in BEFORE]
    choice += [_pick(options, first, keys) for options in BLOCK]
    choice += [_pick(options, "", keys) for options in AFTER]
    depth = sum(key.endswith(".attn.qkv.weight") for key in keys)
    return Layout(tuple(choice), depth)


def _pick(
    options: Sequence[tuple[Row, ...]], prefix: str, keys: Mapping[str, Item]
) -> tuple[Row, ...]:
    """The part that is there; scalars always are."""
    for part in options:
        if all(prefix + name in keys for name, shape in part if shape):
            return part
    raise KeyError(f"none of the parts {options} of an Equimo file can be written")


def bias_keys(depth: int) -> list[str]:
    """Keys of the biases that Equimo 1.x has in every model."""
    prefixes = (BLOCK_PREFIX.format(i=i) for i in range(depth))
    return [prefix + QKV_BIAS[0][0] for prefix in prefixes]


def _member(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.GNU_FORMAT)


def _padded(text: bytes) -> bytes:
    return text + bytes(-len(text) % TAR_BLOCK)
