"""Writes a file that `equinox.tree_deserialise_leaves` reads."""

from collections.abc import Sequence
from pathlib import Path

from weights.containers.npy import header
from weights.progress import Progress
from weights.writers.items import Item


def write_eqx(path: Path, items: Sequence[Item], progress: Progress) -> None:
    """The tensors as records, in the order of the tree's leaves."""
    with path.open("wb") as file:
        for item in items:
            file.write(header(item.shape, "<f4"))
            file.write(item.data())
            progress.step(item.size)
