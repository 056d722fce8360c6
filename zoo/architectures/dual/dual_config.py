"""Hyperparameters of transformers for texts and of dual encoders: plain data without JAX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from zoo.architectures.common_config import MAX_VOCABULARY, NoFeaturesConfig
from zoo.architectures.config_fields import (
    MAX_DEPTH,
    Shapes,
    config_class,
    detail,
    length,
    read_channels_between,
    setting,
    size,
)
from zoo.architectures.inputs import PictureInput, TextInput
from zoo.architectures.parts.layer_options import ACTIVATION_KEY, Activation
from zoo.architectures.vit.vit_config import ViTConfig
from zoo.architectures.vit.vit_sizes import describe_missing_heads
from zoo.tasks.answer import Scores
from zoo.tasks.similarity_tasks import similarity_task, text_task
from zoo.tasks.task import Task

TextPool = Literal["last", "greatest", "mean", "end"]
"""What stands for a text: its last token, that of its greatest number, the mean, or its end."""


WORDS = "token_embed.weight"
"""The leaf `[vocabulary, dim]` with the embeddings of words."""


def _hidden(usual: TextConfig, shapes: Shapes) -> int:
    """Return the channels between both layers of the feed-forward network; 0 without one."""
    return read_channels_between(shapes, "fc1", "fc2", 1)


def _projection(usual: TextConfig, shapes: Shapes) -> int | None:
    """Return the channels of the last layer, which CLIP's networks may be without."""
    channels = length(shapes, "head.weight")
    library_default = usual.projection is None or (usual.pool == "end" and not channels)
    return None if library_default else channels


def _has_projection(config: TextConfig) -> bool:
    """Return whether there always is a last layer."""
    return config.projection is not None and config.pool != "end"


def _tokens(usual: TextConfig, shapes: Shapes) -> int:
    """Return the rows of learned positions; sinusoids are no leaves."""
    return length(shapes, "pos_embed") if usual.positions == "learned" else usual.tokens


@config_class
class TextConfig(NoFeaturesConfig):
    """Hyperparameters of a transformer for texts; the defaults are SigLIP 2's.

    A text is `tokens` numbers below `vocabulary`. Their positions are a table of weights, or
    sinusoids, which are added to embeddings that are multiplied by `√dim`. With `causal` a token
    attends to none behind it, with `masked` to no padding, which the network is then told of.
    `pool` says what stands for the text: its last token, the one of its greatest number, which is
    that of the word that ends a text, or the mean of all that are no padding. CLIP's is the end:
    the first place of the word `end`, or by default of the greatest number. `projection` counts
    the channels of the vector that a linear layer makes of that; None leaves the layer out.
    """

    dim: int = size(WORDS, axis=1, hf="hidden_size")
    depth: int = size("blocks.{}.prenorm.weight", hf="num_hidden_layers", maximum=MAX_DEPTH)
    heads: int = setting(
        hf="num_attention_heads",
        timm="num_heads",
        describe_missing=describe_missing_heads,
        neutral=1,
    )
    hidden: int = size(_hidden, hf="intermediate_size")
    projection: int | None = size(_projection, compare_by=_has_projection)
    vocabulary: int = size(WORDS, default=256_000, hf="vocab_size", maximum=MAX_VOCABULARY)
    tokens: int = size(_tokens, default=64, hf="max_position_embeddings")
    activation: Activation = detail(default="gelu_tanh", hf=ACTIVATION_KEY)
    norm_eps: float = detail(default=1e-6, hf="layer_norm_eps")
    positions: Literal["learned", "sinusoidal"] = "learned"
    causal: bool = False
    masked: bool = False
    pool: TextPool = "last"
    end: int | None = detail(default=None, maximum=MAX_VOCABULARY)
    qkv_bias: bool = True
    head_bias: bool = True

    settings_in: ClassVar[tuple[str, ...]] = ("text_config",)
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
    def is_consistent(self) -> bool:
        """Whether the heads share the channels."""
        return self.dim % self.heads == 0

    @property
    def text(self) -> str:
        """The architecture in a line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"{self.tokens} of {self.vocabulary:,} words"
        )


@config_class
class DualConfig(NoFeaturesConfig):
    """Hyperparameters of a network for images beside one for texts, in one space of vectors.

    With a `bias` a logit is for a sigmoid, without for a softmax over texts. With a `temperature`
    cosines are divided by that, without they are multiplied by the exponential of a weight.
    """

    vision: ViTConfig
    words: TextConfig
    bias: bool = True
    temperature: bool = False

    towers: ClassVar[Mapping[str, str]] = {"text": "words", "vision": "vision"}
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
    def is_consistent(self) -> bool:
        """Whether the vectors of both have as many channels."""
        return self.dim == self.words.width

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
