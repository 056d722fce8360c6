"""What networks take: how the inputs of their files are called and shaped, and samples of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zoo.architectures.architecture import Config
from zoo.architectures.common_config import Taken
from zoo.architectures.entry import ModelInfo
from zoo.export.request import Signature
from zoo.images.photograph import photographs
from zoo.images.pixel_values import pixel_values

Inputs = Mapping[str, NDArray[Any]]
"""By the names that they have in a file."""

BATCH_NAMES: dict[Taken, str] = {
    "pixel_values": "image_batch_size",
    "input_ids": "text_batch_size",
    "attention_mask": "text_batch_size",
}
"""Open batch sizes of a file that takes several things, as Optimum calls them."""

MORE_TEXTS = 2
"""How many more texts than images are tried, where there may be."""

SHORTEST_TEXT = 3
"""Words of the shortest text that is tried; what follows is padding."""


def input_specs(config: Config, signature: Signature) -> list[tuple[tuple[int | str, ...], Any]]:
    """Shapes and types of what a network takes, in its order; what is open has a name."""
    stride, specs = config.stride, list[tuple[tuple[int | str, ...], Any]]()
    sides = signature.size or (f"{stride}*h", f"{stride}*w")
    for name in config.takes:
        several = len({BATCH_NAMES[each] for each in config.takes}) > 1
        batch = signature.batch or (BATCH_NAMES[name] if several else "batch_size")
        if name == "pixel_values":
            specs.append(((batch, 3, *sides), np.float32))
        elif config.words is not None:
            # In JAX they are int32; others' files take what their tokenizers give.
            length = "sequence_length" if config.words.any_length else config.words.tokens
            specs.append(((batch, length), np.int64))
    return specs


def sample_inputs(
    entry: ModelInfo, batch: int, size: tuple[int, int], open_batch: bool = False
) -> dict[str, NDArray[Any]]:
    """Preprocessed photographs and texts, as far as a network takes them.

    **Arguments:** how many of each, (height, width) of the images, and whether there may be another
    number of texts than of images. Several texts are shorter where they may be.
    """
    inputs: dict[str, NDArray[Any]] = {}
    if "pixel_values" in entry.config.takes:
        inputs["pixel_values"] = pixel_values(photographs(batch), entry.preprocessing, size)
    if (words := entry.config.words) is not None:
        tokens = words.tokens // (2 if words.any_length and batch > 1 else 1)
        ids = texts(words.vocabulary, tokens, batch + (MORE_TEXTS if inputs and open_batch else 0))
        inputs["input_ids"] = ids
        if "attention_mask" in entry.config.takes:
            inputs["attention_mask"] = (ids != 0).astype(np.int64)
    return inputs


def texts(vocabulary: int, tokens: int, count: int) -> NDArray[np.int64]:
    """Texts of random words, of several lengths, padded with zeros: `[count, tokens]`."""
    rng = np.random.default_rng(0)
    words = rng.integers(1, vocabulary, (count, tokens))
    lengths = rng.integers(min(SHORTEST_TEXT, tokens), tokens + 1, (count, 1))
    return np.where(np.arange(tokens) < lengths, words, 0)
