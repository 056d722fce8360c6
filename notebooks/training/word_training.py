"""Train both towers of `siglip_digits_dual` on digits and sentences, and measure them."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from notebooks.training.classifier import (
    Recipe,
    Rows,
    augment_images,
    fit,
    make_initial_model,
    normalize_images,
    to_grey,
)
from notebooks.training.sentences import DECIDING_WORDS, Sentences
from zoo.architectures.base import Network
from zoo.architectures.entry import DATA, ModelInfo
from zoo.data.digits.data import DIGIT_CLASSES, Digits
from zoo.texts.tokenizer import Tokenizer, read_tokenizer

RECIPE = Recipe(epochs=45, batch=32, rate=1e-3)

DRAWN_TEXTS = 32
"""Number of sentences with which a batch of images is compared, in addition to one for each
digit."""

HIDDEN_SHARE = 0.15
"""Share of the words that training hides, among those that do not determine the digit. Users may
write words that are in none of our sentences."""

PATCH_POSITION_SCALE, WORD_POSITION_SCALE = 25.0, 5.0
"""Factors by which the initial position embeddings of patches and of words are multiplied."""

INITIAL_BIAS = -2.0
"""Initial value of the bias. The paper's -10 is for batches in which one of many pairs matches."""


class Texts(eqx.Module):
    """Tokenized sentences, some of which training draws."""

    ids: Int[Array, "texts tokens"]
    true_of: Bool[Array, "texts 10"]
    digit_rows: Int[Array, "forms 10"]
    shares: Float[Array, " texts"]
    hideable: Bool[Array, " words"]
    unknown: int

    def __init__(self, sentences: Sentences, tokenizer: Tokenizer):
        vocabulary = tokenizer.backend.get_vocab()
        self.ids = jnp.asarray(tokenizer(sentences.texts), jnp.int32)
        self.true_of, self.digit_rows = (
            jnp.asarray(sentences.true_of),
            jnp.asarray(sentences.digit_rows),
        )
        self.shares, self.unknown = jnp.asarray(sentences.shares), vocabulary["<unk>"]
        visible_words = {*DECIDING_WORDS, *(word for word in vocabulary if word.startswith("<"))}
        numbers = np.array([vocabulary[word] for word in visible_words])
        self.hideable = jnp.ones(len(vocabulary), bool).at[numbers].set(False)

    def draw(self, key: PRNGKeyArray) -> Int[Array, " drawn"]:
        """Return the rows of ten sentences that differ only in the digit, and of random other
        sentences."""
        form_key, key = jr.split(key)
        digit_texts = jr.choice(form_key, self.digit_rows)
        return jnp.concatenate(
            [digit_texts, jr.choice(key, len(self.ids), (DRAWN_TEXTS,), p=self.shares)]
        )

    def read(self, rows: Int[Array, " drawn"], key: PRNGKeyArray) -> Int[Array, "drawn tokens"]:
        """Return the tokens of these rows, with some words hidden."""
        ids = self.ids[rows]
        hidden = jr.bernoulli(key, HIDDEN_SHARE, ids.shape) & self.hideable[ids]
        return jnp.where(hidden, self.unknown, ids)


def train_words(
    entry: ModelInfo,
    digits: Digits,
    sentences: Sentences,
    seed: int,
    recipe: Recipe = RECIPE,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, list[float]]:
    """Return a trained model and the loss of each step, as `classifier.train` does.

    The loss has two parts for each image: which of ten sentences is right, one for each digit, and
    for each sentence whether it is true.
    """
    init_key, *keys = jr.split(jr.key(seed), 3)
    tokenizer = package_tokenizer(entry)
    texts = Texts(sentences, tokenizer)
    images, labels = to_grey(digits), jnp.asarray(digits.labels, jnp.int32)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        image_key, draw_key, word_key = jr.split(key, 3)
        pixels = normalize_images(
            augment_images(images[rows], recipe, image_key), entry.preprocessing
        )
        drawn = texts.draw(draw_key)
        logits = model(pixels, texts.read(drawn, word_key)).logits_per_image
        digit_labels, is_true = labels[rows], texts.true_of[drawn][:, labels[rows]].T
        digit_loss = optax.softmax_cross_entropy_with_integer_labels(
            logits[:, :DIGIT_CLASSES], digit_labels
        )
        return DIGIT_CLASSES * digit_loss.mean() + sigmoid_loss(logits, is_true)

    model = make_initial_model(entry, init_key)
    return fit(initialize_towers(model, tokenizer), objective, len(labels), keys, recipe, tell)


def initialize_towers(model: Any, tokenizer: Tokenizer) -> Any:
    """Return the model with initial embeddings that make positions and words distinguishable.

    The position embeddings of patches are as large as the patch embeddings, because the positions
    of the ink determine the digit. Word embeddings are scaled as in the code of the paper. The
    embedding of padding, which fills most of a text, is zero.
    """
    words = model.words.token_embed.weight
    padding = tokenizer.backend.token_to_id("<pad>")
    words = (words / words.shape[1] ** 0.5).at[padding].set(0.0)
    patch_positions, word_positions = _initialized_leaves(model)[:2]
    scaled = [PATCH_POSITION_SCALE * patch_positions, WORD_POSITION_SCALE * word_positions]
    return eqx.tree_at(_initialized_leaves, model, [*scaled, words, jnp.full(1, INITIAL_BIAS)])


def _initialized_leaves(model: Any) -> list[Array]:
    """Return the leaves with other initial values than usual: positions of patches and words,
    words, and the bias."""
    positions, words = model.vision.global_pos_embed, model.words
    assert positions is not None and words.pos_embed is not None and model.logit_bias is not None
    return [positions.weight, words.pos_embed, words.token_embed.weight, model.logit_bias]


def sigmoid_loss(
    logits: Float[Array, "images texts"], is_true: Bool[Array, "images texts"]
) -> Float[Array, ""]:
    """Return the loss of all pairs: the sum over texts, and the mean over images.

    Source: Zhai et al., 2023, arXiv:2303.15343.
    """
    return -jax.nn.log_sigmoid(jnp.where(is_true, logits, -logits)).sum(axis=1).mean()


def package_tokenizer(entry: ModelInfo) -> Tokenizer:
    """Return the tokenizer that the package contains."""
    words = entry.config.words
    assert words is not None
    return read_tokenizer(DATA, words.tokens)


def zero_shot(model: Network, entry: ModelInfo, digits: Digits, sentences: Sequence[str]) -> float:
    """Return the share of images whose most probable sentence of ten, one for each digit, is
    right."""
    ids = jnp.asarray(package_tokenizer(entry)(sentences), jnp.int32)
    pixels = normalize_images(to_grey(digits), entry.preprocessing)
    logits = eqx.filter_jit(model)(pixels, ids).logits_per_image
    return float((np.asarray(logits).argmax(axis=-1) == digits.labels).mean())
