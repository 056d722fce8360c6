"""How both towers of `siglip_digits_dual` are trained on digits and sentences, and how right they
are."""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from notebooks.training.classifier import Recipe, Rows, fit, grey, initial, jittered, normalised
from notebooks.training.sentences import DECIDING, Sentences
from zoo.architectures.base import Network
from zoo.architectures.entry import DATA, ModelInfo
from zoo.data.digits.data import DIGIT_CLASSES, Digits
from zoo.texts.tokenizer import Tokenizer, read_tokenizer

RECIPE = Recipe(epochs=45, batch=32, rate=1e-3)

TEXTS = 32
"""Sentences that a batch of images is compared with, beside one for each digit."""

UNKNOWN = 0.15
"""The share of words that training hides, of those that say nothing of a digit: users write words
that are in no sentence of ours."""

PLACES, ORDER = 25.0, 5.0
"""How many times as loud as usual the places of patches begin, and those of words."""

BIAS = -2.0
"""What the bias begins with: the paper's -10 is for batches in which one pair of many fits."""


class Texts(eqx.Module):
    """Sentences as a tokenizer reads them, of which training draws some."""

    ids: Int[Array, "texts tokens"]
    true_of: Bool[Array, "texts 10"]
    alike: Int[Array, "forms 10"]
    shares: Float[Array, " texts"]
    hideable: Bool[Array, " words"]
    unknown: int

    def __init__(self, sentences: Sentences, tokenizer: Tokenizer):
        known = tokenizer.backend.get_vocab()
        self.ids = jnp.asarray(tokenizer(sentences.texts), jnp.int32)
        self.true_of, self.alike = jnp.asarray(sentences.true_of), jnp.asarray(sentences.alike)
        self.shares, self.unknown = jnp.asarray(sentences.shares), known["<unk>"]
        kept = {*DECIDING, *(word for word in known if word.startswith("<"))}
        numbers = np.array([known[word] for word in kept])
        self.hideable = jnp.ones(len(known), bool).at[numbers].set(False)

    def draw(self, key: PRNGKeyArray) -> Int[Array, " drawn"]:
        """Rows: ten sentences that differ in the digit alone, and then any."""
        form_key, key = jr.split(key)
        ten = jr.choice(form_key, self.alike)
        return jnp.concatenate([ten, jr.choice(key, len(self.ids), (TEXTS,), p=self.shares)])

    def read(self, rows: Int[Array, " drawn"], key: PRNGKeyArray) -> Int[Array, "drawn tokens"]:
        """Their words, some of them hidden."""
        ids = self.ids[rows]
        hidden = jr.bernoulli(key, UNKNOWN, ids.shape) & self.hideable[ids]
        return jnp.where(hidden, self.unknown, ids)


def train_words(
    entry: ModelInfo,
    digits: Digits,
    sentences: Sentences,
    seed: int,
    recipe: Recipe = RECIPE,
    tell: Callable[[int, float], None] = lambda step, loss: None,
) -> tuple[Network, list[float]]:
    """As `classifier.train`, on two questions about each image: which of ten sentences is
    right, one for each digit; and of every sentence by itself whether it is."""
    init_key, *keys = jr.split(jr.key(seed), 3)
    tokenizer = own_tokenizer(entry)
    texts = Texts(sentences, tokenizer)
    images, labels = grey(digits), jnp.asarray(digits.labels, jnp.int32)

    def objective(model: Network, rows: Rows, key: PRNGKeyArray) -> Float[Array, ""]:
        image_key, draw_key, word_key = jr.split(key, 3)
        pixels = normalised(jittered(images[rows], recipe, image_key), entry.preprocessing)
        drawn = texts.draw(draw_key)
        logits = model(pixels, texts.read(drawn, word_key)).logits_per_image
        right, fits = labels[rows], texts.true_of[drawn][:, labels[rows]].T
        which = optax.softmax_cross_entropy_with_integer_labels(logits[:, :DIGIT_CLASSES], right)
        return DIGIT_CLASSES * which.mean() + sigmoid_loss(logits, fits)

    model = initial(entry, init_key)
    return fit(begun(model, tokenizer), objective, len(labels), keys, recipe, tell)


def begun(model: Any, tokenizer: Tokenizer) -> Any:
    """A model that can tell places and words apart from the beginning.

    Places begin as loud as what is in them: of a digit they say almost everything. Words begin as
    short as those of the paper's code, and padding as nothing, of which most of a text is.
    """
    words = model.words.token_embed.weight
    padding = tokenizer.backend.token_to_id("<pad>")
    words = (words / words.shape[1] ** 0.5).at[padding].set(0.0)
    places, order = _begun_otherwise(model)[:2]
    louder = [PLACES * places, ORDER * order]
    return eqx.tree_at(_begun_otherwise, model, [*louder, words, jnp.full(1, BIAS)])


def _begun_otherwise(model: Any) -> list[Array]:
    """What begins otherwise than usual: places of patches, those of words, words, and the bias."""
    places, words = model.vision.global_pos_embed, model.words
    assert places is not None and words.pos_embed is not None and model.logit_bias is not None
    return [places.weight, words.pos_embed, words.token_embed.weight, model.logit_bias]


def sigmoid_loss(
    logits: Float[Array, "images texts"], fits: Bool[Array, "images texts"]
) -> Float[Array, ""]:
    """What the answers for each pair cost, the sum over the texts and the mean of the images.

    Source: Zhai et al., 2023, arXiv:2303.15343.
    """
    return -jax.nn.log_sigmoid(jnp.where(fits, logits, -logits)).sum(axis=1).mean()


def own_tokenizer(entry: ModelInfo) -> Tokenizer:
    """The tokenizer that the package brings along."""
    words = entry.config.words
    assert words is not None
    return read_tokenizer(DATA, words.tokens)


def zero_shot(model: Network, entry: ModelInfo, digits: Digits, sentences: Sequence[str]) -> float:
    """The share of images of which the likeliest of ten sentences, one for each digit, is right."""
    ids = jnp.asarray(own_tokenizer(entry)(sentences), jnp.int32)
    pixels = normalised(grey(digits), entry.preprocessing)
    found = eqx.filter_jit(model)(pixels, ids).logits_per_image
    return float((np.asarray(found).argmax(axis=-1) == digits.labels).mean())
