"""What `equinox.tree_serialise_leaves` writes: a tree's leaves as `.npy` records in a row.

Records have no names; the tree that they belong to gives them by its order, so tensors are called
by their numbers here (`"0"`, `"1"`, …).
"""

from pathlib import Path

from weights.containers.npy import scan
from weights.files import Checkpoint, FileBytes, sound

CONTAINER = "Equinox leaves"


def read_eqx(path: Path) -> Checkpoint:
    """Tensors by their numbers. **Raises** `NotACheckpoint`."""
    source = FileBytes(path)
    with sound(path, "file of Equinox leaves"), source.opened() as file:
        found = enumerate(scan(file, source.state.size, source))
        tensors = {str(number): tensor for number, tensor in found}
    return Checkpoint(path, CONTAINER, (source,), tensors)
