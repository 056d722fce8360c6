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
"""Number of texts in addition to the number of images in a sample, if the batch sizes of both are
open."""


def input_specs(config: Config, signature: Signature) -> list[tuple[tuple[int | str, ...], Any]]:
    """Return the shape and numpy type of each input array of a network, in the network's order.

    An open dimension is a name, such as `batch`.
    """
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
    """Return preprocessed photographs and random texts, by the names of the network's inputs.

    A network that takes pictures alone or texts alone gets only these.

    **Arguments:**

    - `entry`: registry entry of the network.
    - `batch`: number of pictures, and of texts. If it is above 1, texts have at most half the
      tokens, where the network takes texts of any length.
    - `size`: (height, width) of the pictures.
    - `open_batch`: whether a sample with pictures has `EXTRA_TEXTS` more texts than pictures,
      because both batch sizes of the file are open and may differ.
    """
    inputs: Feeds = {}
    if (pictures := entry.config.pictures) is not None:
        inputs |= pictures.sample(batch, entry.preprocessing, size)
    if (texts := entry.config.texts) is not None:
        count = batch + (EXTRA_TEXTS if inputs and open_batch else 0)
        inputs |= texts.sample(count, shorter=batch > 1)
    return inputs
