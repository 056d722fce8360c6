"""Write archives in Equimo's format 1.x, which Equimo 2.x also reads."""

import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import lz4.frame
import numpy as np

from weights.containers.equimo import METADATA, WEIGHTS
from weights.containers.leaf_order import drop_scalars, possible_layouts
from weights.containers.npy import array_header
from weights.progress import Progress
from weights.tensors import LazyTensor
from weights.writers.items import Items, byte_size, tensor_bytes

SCALARS = {
    # Probability of dropout, and whether dropout is disabled.
    "p": array_header((), "<f8") + np.float64(0).tobytes(),
    "inference": array_header((), "|b1") + np.bool_(True).tobytes(),
}


def write_archive(
    path: Path, items: Items, metadata: Mapping[str, Any], listener: Progress
) -> None:
    """Write a `.tar.lz4` archive of the metadata and the tensors.

    **Arguments:**

    - `items`: the tensors by their paths in Equimo's model.
    - `metadata`: the contents of `metadata.json`.
    - `listener`: the listener of the progress.
    """
    text = json.dumps(metadata).encode()
    total = sum(
        len(head) + (byte_size(tensor) if tensor else 0) for head, tensor in archive_records(items)
    )
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
    """Yield the bytes of `weights.eqx`, and report them to the listener."""
    for head, tensor in archive_records(items):
        yield head
        if tensor:
            yield tensor_bytes(tensor)
            listener.step(byte_size(tensor))


def archive_records(items: Items) -> Iterator[tuple[bytes, LazyTensor | None]]:
    """Yield the beginning of each record of `weights.eqx` in Equimo's order, and the tensor whose
    values follow. For a scalar, whose record is complete, the tensor is None. `items` must have the
    names of one of Equimo's networks."""
    layout = next(
        rows
        for rows in possible_layouts([tensor.shape for tensor in items.values()])
        if {name for name, _ in drop_scalars(rows)} == items.keys()
    )
    for name, shape in layout:
        if not shape:
            yield SCALARS[name.rpartition(".")[2]], None
        else:
            yield array_header(items[name].shape, "<f4"), items[name]
