"""What configurations of all kinds have in common: plain data without JAX."""

from typing import ClassVar, Literal

MOST, DEEPEST, MOST_WORDS = 1 << 17, 512, 1 << 21
"""What a network has at most of anything, of blocks, and of words: more is a trap."""

Taken = Literal["pixel_values", "input_ids", "attention_mask"]
"""What a network may take: images that were preprocessed, texts as numbers of words, and which of
these are no padding."""

Four = tuple[int, int, int, int]

TASKS = ("image-feature-extraction", "image-classification")
"""Of a network without classes, and with."""


PURPOSE_OF_AREAS = "Finds what is where in a picture, of {classes:,} classes{such}."


def class_words(count: int) -> str:
    """How many classes there are, behind other words; nothing without any."""
    return f", {count} classes" if count else ""


class Opaque:
    """Facts of a network that gives neither rows of tokens nor what is inside."""

    # As the properties of `ViTConfig`.
    prefix_tokens: ClassVar[int] = 0
    num_hidden_states: ClassVar[int] = 0
    attends: ClassVar[bool] = True


THREE_CHANNELS = {"num_channels": 3}
"""What all of transformers' classes for pictures ask."""
