"""Shapes and samples of the inputs of exported files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.architecture import Config
from zoo.architectures.entry import ModelInfo
from zoo.architectures.inputs import Feeds, batch_name
from zoo.export.request import Signature

Inputs = Mapping[str, NDArray[Any]]
"""Arrays by the names of a file's inputs."""

EXTRA_TEXTS = 2
"""Number of texts in addition to the number of images in a sample, if both batches are open."""


def input_specs(config: Config, signature: Signature) -> list[tuple[tuple[int | str, ...], Any]]:
    """Return the shape and type of each input of a network. An open size is a name."""
    specs = list[tuple[tuple[int | str, ...], Any]]()
    for network_input in config.inputs:
        batch = signature.batch or batch_name(config.inputs, network_input.kind)
        for array, shape in zip(
            network_input.arrays, network_input.shapes(signature.size), strict=True
        ):
            specs.append(((batch, *shape), np.dtype(array.dtype).type))
    return specs


def sample_inputs(
    entry: ModelInfo, batch: int, size: tuple[int, int], open_batch: bool = False
) -> Feeds:
    """Return preprocessed photographs and texts, as far as a network takes them.

    **Arguments:** `batch` is the number of images, and of texts; `size` is (height, width) of the
    images. With `open_batch` there are more texts than images. If there are several texts, some are
    shorter where the network allows that.
    """
    inputs: Feeds = {}
    if (pictures := entry.config.pictures) is not None:
        inputs |= pictures.sample(batch, entry.preprocessing, size)
    if (texts := entry.config.texts) is not None:
        count = batch + (EXTRA_TEXTS if inputs and open_batch else 0)
        inputs |= texts.sample(count, shorter=batch > 1)
    return inputs
