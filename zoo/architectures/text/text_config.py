"""Hyperparameters of a transformer for texts: plain data without JAX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from zoo.architectures.common_config import DEEPEST, MOST, MOST_WORDS, Opaque, Taken
from zoo.architectures.parts.layer_options import Activation
from zoo.tasks.scores import Scores

TextPool = Literal["last", "greatest", "mean", "end"]
"""What stands for a text: its last token, that of its greatest number, the mean, or its end."""


@dataclass(frozen=True)
class TextConfig(Opaque):
    """Hyperparameters of a transformer for texts; the defaults are SigLIP 2's.

    A text is `tokens` numbers below `vocabulary`. Their positions are a table of weights, or
    sinusoids, which are added to embeddings that are multiplied by `√dim`. With `causal` a token
    attends to none behind it, with `masked` to no padding, which the network is then told of.
    `pool` says what stands for the text: its last token, the one of its greatest number, which is
    that of the word that ends a text, or the mean of all that are no padding. CLIP's is the end:
    the first place of the word `end`, or by default of the greatest number. `projection` counts
    the channels of the vector that a linear layer makes of that; None leaves the layer out.
    """

    dim: int
    depth: int
    heads: int
    hidden: int
    projection: int | None
    vocabulary: int = 256_000
    tokens: int = 64
    activation: Activation = "gelu_tanh"
    norm_eps: float = 1e-6
    positions: Literal["learned", "sinusoidal"] = "learned"
    causal: bool = False
    masked: bool = False
    pool: TextPool = "last"
    end: int | None = None
    qkv_bias: bool = True
    head_bias: bool = True

    # As the properties of `ViTConfig`: a text has no sides.
    classes: ClassVar[int] = 0
    scores: ClassVar[Scores] = "softmax"
    task: ClassVar[str] = "feature-extraction"
    stride: ClassVar[int] = 1
    native: ClassVar[None] = None

    @property
    def words(self) -> TextConfig:
        """The part that is for texts."""
        return self

    @property
    def takes(self) -> tuple[Taken, ...]:
        """Inputs of the network."""
        return ("input_ids", "attention_mask") if self.masked else ("input_ids",)

    @property
    def any_length(self) -> bool:
        """Whether a shorter text needs no padding, and a file takes texts of any length: clients
        pad CLIP's to the longest of them."""
        return self.pool == "end"

    @property
    def width(self) -> int:
        """Channels of a text's vector."""
        return self.dim if self.projection is None else self.projection

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        counts = (self.dim, self.heads, self.hidden, self.depth, self.width, self.tokens)
        sized = all(0 < count <= MOST for count in counts) and self.depth <= DEEPEST
        return sized and 0 < self.vocabulary <= MOST_WORDS and self.dim % self.heads == 0

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"{self.tokens} of {self.vocabulary:,} words"
        )
