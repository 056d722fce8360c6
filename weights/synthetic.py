"""Seeded checkpoints in the layout of the published files, for tests.

One PCG64 generator draws the tensors in sorted order of their keys. The same seed gives the same
bytes on every machine, so that no weights need to be stored.
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
    """Yield the key and the values of every tensor of a seeded checkpoint, in sorted order of the
    keys.

    **Arguments:**

    - `shapes`: the shape of each tensor by key, as `mapping.source_shapes` returns them.
    - `seed`: the seed of the generator.
    - `draws`: the function that draws values, by the kind of parameter, such as `"periods"` or
      `"mask"`.
    - `copies`: keys of further tensors, each with the key whose values it repeats, as
      `Naming.find_copies` returns them. The key of a copy must sort after that of its original.
      Nothing is drawn for copies.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    originals: dict[str, Float32] = {}
    for key in sorted({*shapes, *copies}):
        # The key of a copy is sorted after the key of its original.
        values = originals[copies[key]] if key in copies else draws[kind_of(key)](shapes[key], rng)
        if key in copies.values():
            originals[key] = values
        yield key, values


def write_checkpoint(
    path: Path,
    shapes: Mapping[str, Shape],
    seed: int,
    listener: Progress,
    copies: Mapping[str, str],
) -> None:
    """Write a seeded checkpoint in Meta's format, one tensor at a time. `shapes`, `seed` and
    `copies` are as in `stream_state`."""
    stream = stream_state(shapes, seed, DRAWS, copies)
    all_shapes = {**shapes, **{copy: shapes[original] for copy, original in copies.items()}}
    items = {
        # `write_pth` reads each tensor once and in this order, which is the order of the stream.
        key: LazyTensor(all_shapes[key], meta_names.published_dtype(key), lambda: next(stream)[1])
        for key in sorted(all_shapes)
    }
    write_pth(path, items, listener)
