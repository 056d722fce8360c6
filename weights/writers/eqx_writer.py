"""Write files that `equinox.tree_deserialise_leaves` reads."""

from pathlib import Path

from weights.containers.npy import array_header
from weights.progress import Progress
from weights.writers.items import Items, byte_size, tensor_bytes


def write_eqx(path: Path, items: Items, progress: Progress) -> None:
    """Write the tensors, which must be float32, as records without names. The order of `items` must
    be that of the model's leaves."""
    with path.open("wb") as file:
        for tensor in items.values():
            file.write(array_header(tensor.shape, "<f4"))
            file.write(tensor_bytes(tensor))
            progress.step(byte_size(tensor))
