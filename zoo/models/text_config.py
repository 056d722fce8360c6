"""Hyperparameters of a transformer for texts, and what those of all networks have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

MOST, DEEPEST, MOST_WORDS = 1 << 17, 512, 1 << 21
"""What a network has at most of anything, of blocks, and of words: more is a trap."""

Taken = Literal["pixel_values", "input_ids"]
"""What a network may take: images that were preprocessed, and texts as numbers of words."""


class Opaque:
    """What a network says of itself that gives neither rows of tokens nor what is inside."""

    # As the properties of `ViTConfig`.
    prefix_tokens: ClassVar[int] = 0
    num_hidden_states: ClassVar[int] = 0


@dataclass(frozen=True)
class TextConfig(Opaque):
    """Hyperparameters of a transformer for texts; the defaults are SigLIP 2's.

    A text is `tokens` numbers below `vocabulary`. `projection` counts the channels of its vector:
    as many as those of the images' that it is compared with.
    """

    dim: int
    depth: int
    heads: int
    hidden: int
    projection: int
    vocabulary: int = 256_000
    tokens: int = 64
    activation: Literal["gelu", "gelu_tanh"] = "gelu_tanh"
    norm_eps: float = 1e-6

    # As the properties of `ViTConfig`: a text has no sides.
    classes: ClassVar[int] = 0
    task: ClassVar[str] = "feature-extraction"
    takes: ClassVar[tuple[Taken, ...]] = ("input_ids",)
    stride: ClassVar[int] = 1
    native: ClassVar[None] = None

    @property
    def words(self) -> TextConfig:
        """The part that is for texts."""
        return self

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        counts = (self.dim, self.heads, self.hidden, self.depth, self.projection, self.tokens)
        sized = all(0 < count <= MOST for count in counts) and self.depth <= DEEPEST
        return sized and 0 < self.vocabulary <= MOST_WORDS and self.dim % self.heads == 0

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"{self.tokens} of {self.vocabulary:,} words"
        )
