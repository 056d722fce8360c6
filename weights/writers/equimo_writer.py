"""Writes an archive in Equimo's 1.x format, which 2.x reads too."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np

from weights.containers.equimo import METADATA, WEIGHTS
from weights.containers.leaf_order import arrays_of, layouts
from weights.containers.npy import array_header
from weights.progress import Progress
from weights.tensors import LazyTensor
from weights.writers.items import Items, byte_size, data

SCALARS = {
    # Dropout probability, and whether dropout is off.
    "p": array_header((), "<f8") + np.float64(0).tobytes(),
    "inference": array_header((), "|b1") + np.bool_(True).tobytes(),
}


def write_archive(
    path: Path, items: Items, metadata: Mapping[str, Any], listener: Progress
) -> None:
    """A `.tar.lz4` of the metadata and of the tensors, whose keys are paths in Equimo's tree."""
    text = json.dumps(metadata).encode()
    total = sum(len(head) + (byte_size(tensor) if tensor else 0) for head, tensor in records(items))
    members = ((METADATA, len(text), [text]), (WEIGHTS, total, _content(items, listener)))
    with lz4.frame.open(path, "wb", content_checksum=True) as file:
        for name, length, content in members:
            info = tarfile.TarInfo(name)
            info.size = length
            file.write(info.tobuf(tarfile.GNU_FORMAT))
            for piece in content:
                file.write(piece)
            file.write(bytes(-length % tarfile.BLOCKSIZE))
        file.write(bytes(2 * tarfile.BLOCKSIZE))  # the archive's end


def _content(items: Items, listener: Progress) -> Iterator[bytes | memoryview]:
    for head, tensor in records(items):
        yield head
        if tensor:
            yield data(tensor)
            listener.step(byte_size(tensor))


def records(items: Items) -> Iterator[tuple[bytes, LazyTensor | None]]:
    """The beginning of every record, and the tensor whose values follow; None for a scalar."""
    layout = next(
        rows
        for rows in layouts([tensor.shape for tensor in items.values()])
        if {name for name, _ in arrays_of(rows)} == items.keys()
    )
    for name, shape in layout:
        if not shape:
            yield SCALARS[name.rpartition(".")[2]], None
        else:
            yield array_header(items[name].shape, "<f4"), items[name]
