"""Shapes of what the files of networks take, and samples of it."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import Feeds, batch_name
from zoo.export.request import Signature

Inputs = Mapping[str, NDArray[Any]]
"""By the names that they have in a file."""

MORE_TEXTS = 2
"""How many more texts than images are tried, where there may be."""


def input_specs(config: Config, signature: Signature) -> list[tuple[tuple[int | str, ...], Any]]:
    """Shapes and types of what a network takes, in its order; what is open has a name."""
    specs = list[tuple[tuple[int | str, ...], Any]]()
    for each in config.inputs:
        batch = signature.batch or batch_name(config.inputs, each.kind)
        for array, shape in zip(each.arrays, each.shapes(signature.size), strict=True):
            specs.append(((batch, *shape), np.dtype(array.dtype).type))
    return specs


def sample_inputs(
    entry: ModelInfo, batch: int, size: tuple[int, int], open_batch: bool = False
) -> Feeds:
    """Preprocessed photographs and texts, as far as a network takes them.

    **Arguments:** how many of each, (height, width) of the images, and whether there may be another
    number of texts than of images. Several texts are shorter where they may be.
    """
    inputs: Feeds = {}
    if (pictures := entry.config.pictures) is not None:
        inputs |= pictures.sample(batch, entry.preprocessing, size)
    if (texts := entry.config.texts) is not None:
        count = batch + (MORE_TEXTS if inputs and open_batch else 0)
        inputs |= texts.sample(count, shorter=batch > 1)
    return inputs
