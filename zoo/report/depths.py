"""How far a linear layer on frozen features is from depths that were measured.

The layer is a ridge regression from the features of a patch to the mean depth of its pixels, which
has no settings to be found. Its depths are resized to the picture's size, and the error is the root
of the mean square over the pixels of a picture whose depth is known, averaged over pictures. Layers
that are trained as papers do it, on all of a data set, are better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from weights.containers.npy import read_eqx
from weights.parameters import parameter
from zoo.answers.depth_map import depth_map
from zoo.architectures.entry import ModelInfo
from zoo.errors import BadRequest
from zoo.images.pictures import pictures
from zoo.images.pixel_values import Float32, Size, pixel_values
from zoo.report.content import Depths
from zoo.report.neighbours import RIDGE
from zoo.runtime import Session

EVERY = 4
"""One picture in so many is asked; the layer is fitted to the others."""

LEAST_PAIRS = 8
"""Pictures without which nothing can be said."""

PATCHES = "last_hidden_state"


@dataclass(frozen=True)
class DepthTask:
    """Pictures, and for each a file of depths."""

    pairs: Sequence[tuple[Path, Path]]
    told: Depths

    def fitting(self, most: int) -> DepthTask | None:
        """The same with at most so many pictures, taken evenly; None where that says nothing."""
        if most >= len(self.pairs):
            return self
        if most < LEAST_PAIRS:
            return None
        places = np.linspace(0, len(self.pairs) - 1, most).round().astype(int)
        left_out = {"left_out": len(self.pairs) - most}
        few = tell_depths(self.told.folder, most).model_copy(update=left_out)
        return replace(self, pairs=[self.pairs[place] for place in places], told=few)


def read_depth_task(folder: Path) -> DepthTask:
    """Pictures of a folder beside which there is a file of the same name in .npy.

    **Raises** `BadRequest` where there are too few, or one is no depths.
    """
    known = Image.registered_extensions()
    there = sorted(folder.iterdir()) if folder.is_dir() else ()
    found = [(path, path.with_suffix(".npy")) for path in there if path.suffix.lower() in known]
    pairs = [pair for pair in found if pair[1].is_file()]
    if len(pairs) < LEAST_PAIRS:
        raise BadRequest(
            f"{parameter('depths')} {folder} has {len(pairs)} pictures with depths: give "
            f"{LEAST_PAIRS} or more, such as room.jpg, and metres beside each in room.npy."
        )
    for _, path in pairs:
        tensor = read_eqx(path).tensors["0"]
        if len(tensor.shape) != 2 or not tensor.dtype.startswith("float"):
            raise BadRequest(
                f"{path} is {tensor.dtype} {list(tensor.shape)}: depths are metres in floats, for "
                "each row and column."
            )
    return DepthTask(pairs, tell_depths(folder.absolute().name, len(pairs)))


def tell_depths(folder: str, count: int) -> Depths:
    """What is said of so many pictures in a report."""
    asked = len(range(0, count, EVERY))
    return Depths(folder=folder, known=count - asked, asked=asked)


def depth_error(live: Session, task: DepthTask, entry: ModelInfo) -> float | None:
    """The error in metres; None of a file without features of patches."""
    if PATCHES not in (output.name for output in live.get_outputs()):
        return None
    known = [pair for place, pair in enumerate(task.pairs) if place % EVERY]
    layer = fitted(seen(live, known, entry), entry.config.dim)
    errors = []
    for features, depths in seen(live, task.pairs[::EVERY], entry):
        guessed = depth_map(layer(features), (depths.shape[0], depths.shape[1]))
        there = has_depth(depths)
        if there.any():
            errors.append(float(np.sqrt(np.mean((guessed - depths)[there] ** 2))))
    return float(np.mean(errors)) if errors else None


def seen(
    live: Session, pairs: Sequence[tuple[Path, Path]], entry: ModelInfo
) -> Iterator[tuple[Float32, Float32]]:
    """Features `[rows, columns, dim]` of each picture, and its depths `[height, width]`.

    The whole of a picture is stretched to the size of the model, since its edges have depths too.
    """
    how, stride = replace(entry.preprocessing, resize=None, padded=False), entry.config.stride
    rows, columns = how.size[0] // stride, how.size[1] // stride
    for picture, path in pairs:
        pixels = pixel_values(pictures([str(picture)]), how, how.size)
        (tokens,) = live.run([PATCHES], {"pixel_values": pixels})
        patches = np.asarray(tokens, np.float32)[0, -rows * columns :]
        yield patches.reshape(rows, columns, -1), read_eqx(path).tensors["0"].read()


def has_depth(depths: Float32) -> NDArray[np.bool_]:
    """Where a depth was measured: not zero, and a number."""
    known: NDArray[np.bool_] = np.isfinite(depths) & (depths > 0)
    return known


@dataclass(frozen=True)
class DepthLayer:
    """`features · matrix + offset`, in metres."""

    matrix: NDArray[np.float64]
    offset: float

    def __call__(self, features: Float32) -> Float32:
        return np.asarray(features @ self.matrix + self.offset, np.float32)


def fitted(examples: Iterable[tuple[Float32, Float32]], dim: int) -> DepthLayer:
    """The ridge regression on all patches some of whose pixels have a depth."""
    count, wanted, total = 0, 0.0, np.zeros(dim)
    squares, products = np.zeros((dim, dim)), np.zeros(dim)
    for features, depths in examples:
        means = mean_depths(depths, (features.shape[0], features.shape[1]))
        there = np.isfinite(means)
        rows, depth = features[there].astype(np.float64), means[there]
        count, total, wanted = count + len(rows), total + rows.sum(axis=0), wanted + depth.sum()
        squares, products = squares + rows.T @ rows, products + rows.T @ depth
    middle, mean = total / max(count, 1), wanted / max(count, 1)
    covariance = squares - count * np.outer(middle, middle)
    ridge = max(RIDGE * np.trace(covariance) / len(covariance), 1e-12)
    right = products - count * middle * mean
    matrix = np.linalg.solve(covariance + ridge * np.eye(len(covariance)), right)
    return DepthLayer(matrix, float(mean - middle @ matrix))


def mean_depths(depths: Float32, grid: Size) -> NDArray[np.float64]:
    """The mean depth of each patch `[rows, columns]`; not a number where none of it is known."""
    there = has_depth(depths)
    rows, columns = (np.arange(n) * m // n for n, m in zip(depths.shape, grid, strict=True))
    places = (rows[:, None] * grid[1] + columns)[there]
    size = grid[0] * grid[1]
    sums = np.bincount(places, depths[there], size)
    with np.errstate(invalid="ignore"):
        return (sums / np.bincount(places, minlength=size)).reshape(grid)
