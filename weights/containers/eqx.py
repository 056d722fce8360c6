"""What `equinox.tree_serialise_leaves` writes: a tree's leaves as `.npy` records in a row.

Records have no names; the tree that they belong to gives them by its order, so tensors are called
by their numbers here (`"0"`, `"1"`, …).
"""

from __future__ import annotations

from pathlib import Path

from weights.checkpoint import Checkpoint
from weights.containers.npy import BadRecord, Seekable, scan
from weights.errors import NotACheckpoint
from weights.files import FileBytes, lazy

CONTAINER = "Equinox leaves"


def read_eqx(path: Path) -> Checkpoint:
    """Tensors by their numbers. **Raises** `NotACheckpoint`."""
    source = FileBytes(path)
    try:
        with path.open("rb") as file:
            records = list(scan(Seekable(file), path.stat().st_size))
    except BadRecord as error:
        raise NotACheckpoint(
            f"{path} is no sound file of Equinox leaves ({error}): write it again."
        ) from error
    tensors = {
        str(number): lazy(source, record.offset, record.shape, record.dtype)
        for number, record in enumerate(records)
    }
    return Checkpoint(path, CONTAINER, (path,), tensors)
