"""Hyperparameters of transformers for texts and of dual encoders: plain data without JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from zoo.architectures.common_config import DEEPEST, MOST, MOST_WORDS, Opaque
from zoo.architectures.inputs import PictureInput, TextInput
from zoo.architectures.parts.layer_options import Activation
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.tasks.answer import Scores
from zoo.tasks.similarity_tasks import similarity_task, text_task
from zoo.tasks.task import Task

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
    stride: ClassVar[int] = 1
    native: ClassVar[None] = None

    @property
    def task(self) -> Task:
        """Vectors of texts."""
        tokens = "sequence_length" if self.any_length else self.tokens
        return text_task(tokens, self.dim, self.width)

    @property
    def words(self) -> TextConfig:
        """The part that is for texts."""
        return self

    @property
    def pictures(self) -> None:
        """None: there is no input for pictures."""
        return None

    @property
    def texts(self) -> TextInput:
        """The input for texts."""
        return TextInput(self.vocabulary, self.tokens, self.any_length, self.masked)

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


@dataclass(frozen=True)
class DualConfig(Opaque):
    """Hyperparameters of a network for images beside one for texts, in one space of vectors.

    With a `bias` a logit is for a sigmoid, without for a softmax over texts. With a `temperature`
    cosines are divided by that, without they are multiplied by the exponential of a weight.
    """

    vision: ViTConfig
    words: TextConfig
    bias: bool = True
    temperature: bool = False

    classes: ClassVar[int] = 0

    @property
    def task(self) -> Task:
        """Similarities of pictures and texts."""
        return similarity_task(self.dim, self.scores, self.similarity)

    def similarity(self, leaves: Mapping[str, Any]) -> tuple[float, float]:
        """Return the factor and the summand that make a logit of a cosine, from the leaves."""
        if self.temperature:
            scale = 1 / float(leaves["temperature"])
        else:
            scale = math.exp(leaves["logit_scale"][0])
        return scale, float(leaves["logit_bias"][0]) if self.bias else 0.0

    @property
    def pictures(self) -> PictureInput | None:
        """The input for pictures."""
        return self.vision.pictures

    @property
    def texts(self) -> TextInput:
        """The input for texts."""
        return self.words.texts

    @property
    def scores(self) -> Literal["sigmoid", "softmax"]:
        """Function that makes probabilities of logits."""
        return "sigmoid" if self.bias else "softmax"

    @property
    def is_sound(self) -> bool:
        """Whether a network can have these sizes."""
        return self.vision.is_sound and self.words.is_sound and self.dim == self.words.width

    @property
    def dim(self) -> int:
        """Channels of a vector."""
        return self.vision.width

    @property
    def depth(self) -> int:
        """Blocks of both towers."""
        return self.vision.depth + self.words.depth

    @property
    def stride(self) -> int:
        """Pixels along a side of a patch."""
        return self.vision.stride

    @property
    def native(self) -> tuple[int, int] | None:
        """(height, width) of the images that learned positions were trained on."""
        return self.vision.native

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return f"{self.vision.text}; for texts {self.words.depth} blocks of width {self.words.dim}"
