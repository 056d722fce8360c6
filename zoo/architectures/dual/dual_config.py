"""Configurations of transformers for texts and of dual encoders. This module is plain data without
JAX."""

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
"""Source of the vector of a text: its last token, the token with the greatest number, the mean of
its tokens, or its end token."""


TOKEN_EMBEDDING = "token_embed.weight"
"""Leaf `[vocabulary, dim]` with the embeddings of tokens."""


def _read_hidden(config: TextConfig, shapes: Shapes) -> int:
    """Return the number of channels between the layers of the feed-forward network; 0 if the
    checkpoint has no such network."""
    return read_channels_between(shapes, "fc1", "fc2", 1)


def _read_projection(config: TextConfig, shapes: Shapes) -> int | None:
    """Return the number of channels of the linear layer after pooling, as a checkpoint has it; None
    without such a layer.

    None means that `config` has no projection, or that a CLIP checkpoint lacks the layer, which is
    optional there. For other networks a missing layer has 0 channels, which is out of bounds.
    """
    channels = length(shapes, "head.weight")
    is_absent = config.projection is None or (config.pool == "end" and not channels)
    return None if is_absent else channels


def _has_projection(config: TextConfig) -> bool:
    """Return True if every checkpoint of the network has a projection. CLIP's networks
    (`pool="end"`) may lack it."""
    return config.projection is not None and config.pool != "end"


def _read_tokens(config: TextConfig, shapes: Shapes) -> int:
    """Return the number of learned positions in a checkpoint. Sinusoidal positions are no leaf, so
    that the configuration's number of tokens is returned for them."""
    return length(shapes, "pos_embed") if config.positions == "learned" else config.tokens


@config_class
class TextConfig(NoFeaturesConfig):
    """Configuration of a transformer for texts. The defaults are SigLIP 2's.

    - `dim`, `depth`, `heads`, `hidden`: channels of a token, blocks, heads, and channels inside the
      feed-forward network.
    - `projection`: channels to which a linear layer projects the vector of a text; None without
      this layer.
    - `vocabulary`, `tokens`: number of different tokens, and largest number of tokens of a text.
    - `positions`: learned positions, or sinusoids, which are added to embeddings that are
      multiplied by `√dim`.
    - `causal`: whether a token attends only to itself and the tokens before it.
    - `masked`: whether padding is masked, so that the network takes a mask.
    - `pool`: the source of the text's vector: the last token ("last"); the token with the greatest
      id, which ends a text ("greatest"); the mean of all tokens that are not padding ("mean"); or
      CLIP's end ("end"), the first token with the id `end`.
    - `end`: the id of the token that ends a text; None for the greatest id in the text.
    - `qkv_bias`, `head_bias`: whether queries, keys and values, and the projection, have biases.
    """

    dim: int = size(TOKEN_EMBEDDING, axis=1, hf="hidden_size")
    depth: int = size("blocks.{}.prenorm.weight", hf="num_hidden_layers", maximum=MAX_DEPTH)
    heads: int = setting(
        hf="num_attention_heads",
        timm="num_heads",
        describe_missing=describe_missing_heads,
        neutral=1,
    )
    hidden: int = size(_read_hidden, hf="intermediate_size")
    projection: int | None = size(_read_projection, compare_by=_has_projection)
    vocabulary: int = size(
        TOKEN_EMBEDDING, default=256_000, hf="vocab_size", maximum=MAX_VOCABULARY
    )
    tokens: int = size(_read_tokens, default=64, hf="max_position_embeddings")
    activation: Activation = detail(default="gelu_tanh", hf=ACTIVATION_KEY)
    norm_eps: float = detail(default=1e-6, hf="layer_norm_eps")
    positions: Literal["learned", "sinusoidal"] = "learned"
    causal: bool = False
    masked: bool = False
    pool: TextPool = "last"
    end: int | None = detail(default=None, maximum=MAX_VOCABULARY)
    qkv_bias: bool = True
    head_bias: bool = True

    settings_sections: ClassVar[tuple[str, ...]] = ("text_config",)
    # See the properties of `ViTConfig`. A text has no sides.
    classes: ClassVar[int] = 0
    scores: ClassVar[Scores] = "softmax"
    stride: ClassVar[int] = 1
    native_size: ClassVar[None] = None

    @property
    def task(self) -> Task:
        """The task: vectors of texts."""
        tokens = "sequence_length" if self.any_length else self.tokens
        return text_task(tokens, self.dim, self.width)

    @property
    def words(self) -> TextConfig:
        """The configuration itself. A dual encoder has its network for texts in a field of this
        name."""
        return self

    @property
    def pictures(self) -> None:
        """None, because the network takes no pictures."""
        return None

    @property
    def texts(self) -> TextInput:
        """The input for texts."""
        return TextInput(self.vocabulary, self.tokens, self.any_length, self.masked)

    @property
    def any_length(self) -> bool:
        """Whether a file takes texts of any length without padding, as CLIP's files do. Clients pad
        the texts of a batch only to the length of the longest one."""
        return self.pool == "end"

    @property
    def width(self) -> int:
        """Number of channels of a text's vector."""
        return self.dim if self.projection is None else self.projection

    @property
    def is_consistent(self) -> bool:
        """Whether the number of channels is a multiple of the number of heads."""
        return self.dim % self.heads == 0

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        return (
            f"{self.depth} blocks of width {self.dim}, {self.heads} heads, mlp {self.hidden}, "
            f"{self.tokens} of {self.vocabulary:,} tokens"
        )


@config_class
class DualConfig(NoFeaturesConfig):
    """Configuration of a dual encoder: a network for pictures and one for texts, whose vectors are
    compared.

    - `vision`, `words`: the configurations of the network for pictures and of that for texts.
    - `bias`: whether a bias is added to logits. Logits with a bias are for a sigmoid, others for a
      softmax over texts.
    - `temperature`: True if cosines are divided by the parameter `temperature`; False if they are
      multiplied by the exponential of the parameter `logit_scale`.
    """

    vision: ViTConfig
    words: TextConfig
    bias: bool = True
    temperature: bool = False

    towers: ClassVar[Mapping[str, str]] = {"text": "words", "vision": "vision"}
    classes: ClassVar[int] = 0

    @property
    def task(self) -> Task:
        """The task: similarities of pictures and texts."""
        return similarity_task(self.dim, self.scores, self.similarity)

    def similarity(self, leaves: Mapping[str, Any]) -> tuple[float, float]:
        """Return the factor and the summand that convert a cosine to a logit.

        `leaves` are the arrays of the network by path. The factor is computed from `temperature` or
        `logit_scale`; the summand is `logit_bias`, or 0 without a bias.
        """
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
        """Name of the function that converts logits to probabilities: "sigmoid" for logits with a
        bias, otherwise "softmax"."""
        return "sigmoid" if self.bias else "softmax"

    @property
    def is_consistent(self) -> bool:
        """Whether the vectors of both networks have the same number of channels."""
        return self.dim == self.words.width

    @property
    def dim(self) -> int:
        """Number of channels of a vector."""
        return self.vision.width

    @property
    def depth(self) -> int:
        """Number of blocks of both networks."""
        return self.vision.depth + self.words.depth

    @property
    def stride(self) -> int:
        """Number of pixels along a side of a patch."""
        return self.vision.stride

    @property
    def native_size(self) -> tuple[int, int] | None:
        """(height, width) of the pictures that learned positions were trained on; None without
        learned positions."""
        return self.vision.native_size

    @property
    def description(self) -> str:
        """Description of the architecture in one line."""
        words = self.words
        return f"{self.vision.description}; for texts {words.depth} blocks of width {words.dim}"
