"""Classes that are found by sentences about them, without any image whose class is known.

Papers take several sentences about a class, and names of ImageNet's classes that were chosen for
it; here each class has one sentence, so that what is found is some percent less.
"""

from collections.abc import Sequence
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from weights import bind
from weights.errors import WeightsError
from weights.progress import Progress
from zoo.answers.labels import in_sentences
from zoo.architectures.builder import abstract, batched
from zoo.architectures.entry import ModelInfo
from zoo.architectures.families.shared import class_names
from zoo.checkpoints.load import Loaded, open_weights
from zoo.checkpoints.weights_argument import Given
from zoo.images.pixel_values import Float32
from zoo.registry.lookup import MODELS
from zoo.report.labelled import SYNSET
from zoo.texts.tokenizer import WORDS, read_tokenizer

SENTENCE = "a photo of a {}."

AT_ONCE = 32
"""Sentences that JAX gets at once."""


def words_of(classes: Sequence[str]) -> list[str] | None:
    """What classes are called, by the names of their folders; None if those are no words.

    All of ImageNet's folders are told by their number, and have its names.
    """
    if all(map(SYNSET.fullmatch, classes)):
        names = class_names("imagenet1k")
        return [name.partition(",")[0] for name in names] if len(names) == len(classes) else None
    return [name.replace("_", " ") for name in classes]


def sentence_vectors(
    entry: ModelInfo, path: Path, classes: Sequence[str], progress: Progress
) -> Float32 | None:
    """Unit vectors `[classes, dim]` of sentences, by the tower for texts that is in the same
    checkpoint. None for a model without one, and for classes that are no words; where there is no
    tokenizer beside it, that is said."""
    tower, names = MODELS.get(f"{entry.name}_text"), words_of(classes)
    if tower is None or names is None:
        return None
    folder = path if path.is_dir() else path.parent
    if not (folder / WORDS).is_file():
        progress.note(f"{folder} has no {WORDS}, so that {entry.name} is asked in no sentences")
        return None
    progress.stage(f"{entry.name}: {len(names)} sentences")
    try:
        loaded = open_weights(Given(path), tower, progress)
    except WeightsError:
        return None  # it holds the tower for images alone
    return unit_vectors(loaded, folder, in_sentences(names, SENTENCE))


def unit_vectors(loaded: Loaded, folder: Path, texts: Sequence[str]) -> Float32:
    """Vectors `[texts, dim]` of a tower, with the tokenizer of a folder."""
    config, words = loaded.config, loaded.config.words
    assert words is not None, "a tower for texts"
    fed = read_tokenizer(folder, words.tokens).encoded(texts)
    model, run = bind(abstract(config), loaded.weights.arrays), eqx.filter_jit(batched)
    parts = []
    for start in range(0, len(texts), AT_ONCE):
        some = [jnp.asarray(fed[name][start : start + AT_ONCE], jnp.int32) for name in config.takes]
        parts.append(np.asarray(run(model, *some)["pooler_output"]))
    found = np.concatenate(parts)
    return found / np.linalg.norm(found, axis=1, keepdims=True)
