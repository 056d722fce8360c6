"""Seeded checkpoints in the exact layout of the published files, for tests.

One PCG64 stream, one draw per key in sorted order, so that the same seed gives the same bytes
everywhere and no weights need to be stored.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from weights.initializers import DRAWS, Draw, Float32, Shape, kind_of
from weights.namings import meta_names
from weights.progress import Progress
from weights.tensors import LazyTensor
from weights.writers.pth_writer import write_pth


def stream_state(
    shapes: Mapping[str, Shape],
    seed: int,
    draws: Mapping[str, Draw],
    copies: Mapping[str, str],
) -> Iterator[tuple[str, Float32]]:
    """Values for every key of a checkpoint, one by one in sorted order.

    `mapping.source_shapes` gives keys and shapes. `draws` replaces the distributions, such as that
    of `"periods"` or `"mask"`. `copies` are further keys and what they repeat, as
    `Naming.repeated` gives them; nothing is drawn for those.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    originals: dict[str, Float32] = {}
    for key in sorted({*shapes, *copies}):
        # A copy's name sorts behind its original's.
        drawn = originals[copies[key]] if key in copies else draws[kind_of(key)](shapes[key], rng)
        if key in copies.values():
            originals[key] = drawn
        yield key, drawn


def write_checkpoint(
    path: Path,
    shapes: Mapping[str, Shape],
    seed: int,
    listener: Progress,
    copies: Mapping[str, str],
) -> None:
    """Write a seeded checkpoint in Meta's layout, one tensor at a time."""
    stream = stream_state(shapes, seed, DRAWS, copies)
    whole = {**shapes, **{copy: shapes[original] for copy, original in copies.items()}}
    items = {
        # Read once each, in this order, which is the stream's.
        key: LazyTensor(whole[key], meta_names.dtype(key), lambda: next(stream)[1])
        for key in sorted(whole)
    }
    write_pth(path, items, listener)
