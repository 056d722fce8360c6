"""What configurations of all kinds have in common: plain data without JAX."""

from typing import ClassVar, Literal, Protocol

MOST, DEEPEST, MOST_WORDS = 1 << 17, 512, 1 << 21
"""What a network has at most of anything, of blocks, and of words: more is a trap."""

Scores = Literal["softmax", "sigmoid", "none"]
"""What makes answers of logits: classes exclude each other, or each is by itself, or is a number as
it is."""

Taken = Literal["pixel_values", "input_ids", "attention_mask"]
"""What a network may take: images that were preprocessed, texts as numbers of words, and which of
these are no padding."""

Four = tuple[int, int, int, int]

TASKS = ("image-feature-extraction", "image-classification")
"""Of a network without classes, and with."""


class HasClasses(Protocol):
    """A configuration that says how many classes there are; 0 for features."""

    @property
    def classes(self) -> int:
        """How many."""


TURNS_INTO_VECTORS = (
    "Turns a picture into vectors, one for each patch of {stride} x {stride} pixels{whole}: for "
    "search, classification, segmentation and what else is trained on top of them."
)
CLASSIFIES = "Says which of {classes:,} classes a picture shows{such}."
PURPOSE_OF_AREAS = "Finds what is where in a picture, of {classes:,} classes{such}."


def purpose_of_features(config: HasClasses) -> str:
    """What a network is for that gives features, or is a classifier of them."""
    return CLASSIFIES if config.classes else TURNS_INTO_VECTORS


def class_words(count: int) -> str:
    """How many classes there are, behind other words; nothing without any."""
    return f", {count} classes" if count else ""


class Opaque:
    """What a network says of itself that gives neither rows of tokens nor what is inside."""

    # As the properties of `ViTConfig`.
    prefix_tokens: ClassVar[int] = 0
    num_hidden_states: ClassVar[int] = 0
    attends: ClassVar[bool] = True


PICTURES = {"num_channels": 3}
"""What all of transformers' classes for pictures ask."""
