"""The model whose weights are in the package: what it reads, and how its weights came to be."""

import json
import sys
from dataclasses import replace
from functools import cache
from hashlib import sha256
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer

from converter.verify.sessions import run
from notebooks.training import __main__ as train_digits
from notebooks.training import sentences
from notebooks.training.classifier import (
    Recipe,
    make_initial_model,
    normalize_images,
    save_weights,
    to_grey,
    train,
)
from notebooks.training.depth_training import RECIPE, measure, predict, train_depth
from notebooks.training.word_training import RECIPE as WORD_RECIPE
from notebooks.training.word_training import package_tokenizer, train_words, zero_shot
from tests.references import siglip2
from weights import leaf_values
from zoo import from_pretrained as load
from zoo import info
from zoo.architectures.builder import abstract, batched, count_parameters
from zoo.architectures.entry import DATA
from zoo.checkpoints.identify import summarize_checkpoint
from zoo.checkpoints.source import GivenCheckpoint
from zoo.common.errors import BadOutput, BadRequest, MissingLibrary
from zoo.data.digits import data as digits
from zoo.data.digits.scenes import MAX_DIGITS, draw_scenes
from zoo.images.pixel_values import pixel_values

ENTRY = info("vit_digits")
FILE = DATA / ENTRY.checkpoint


@cache
def held_out_pixels():
    """`pixel_values` of the held-out digits, as anybody would make them, and their labels."""
    _, apart = digits.split_digits()
    pictures = [Image.fromarray(image) for image in apart.images]
    return pixel_values(pictures, ENTRY.preprocessing, ENTRY.preprocessing.size), apart.labels


def accuracy(model) -> float:
    """The share of the held-out digits that a file or session gets right."""
    pixels, labels = held_out_pixels()
    return float((run(model, [pixels])["logits"].argmax(-1) == labels).mean())


def test_the_file():
    assert sha256(FILE.read_bytes()).hexdigest() == ENTRY.digest
    assert FILE.stat().st_size <= 1_000_000
    assert summarize_checkpoint(GivenCheckpoint(FILE)).models == ("vit_digits",)
    assert count_parameters(abstract(ENTRY.config)) == ENTRY.parameters


def test_exports_without_options(zoo):
    """Nor network or checkpoint: what is in the package is taken, whatever lies beside it."""
    pixels, labels = held_out_pixels()
    seen = eqx.filter_jit(batched)(load("vit_digits"), pixels)["logits"].argmax(-1)
    assert (seen == labels).mean() >= 0.97
    (zoo.here / ENTRY.checkpoint).write_text("somebody else's")
    assert "from this package" in zoo("export", "vit_digits", "--opset", 18, 23, "--offline").out
    for opset in (18, 23):
        file = zoo.here / f"vit_digits-opset{opset}.onnx"
        np.testing.assert_array_equal(run(file, [pixels])["logits"].argmax(-1), seen)
    record = json.loads(file.with_suffix(".manifest.json").read_text())
    weights = record["weights"]
    assert (weights["name"], weights["sha256"]) == (ENTRY.checkpoint, ENTRY.digest)
    assert weights["is_published_file"] and weights["is_embedded_file"]
    variant = record["variants"]["fused"]
    fused = {"Attention": 4, "Gelu": 4, "LayerNormalization": 9, "RotaryEmbedding": 8}
    assert variant["fused"] == fused and variant["verification"]["passed"]
    assert variant["inputs"][0]["shape"] == ["batch_size", 3, 8, 8]


def test_split():
    whole = digits.load_digits()
    kept, apart = digits.split_rows(whole.labels, digits.HELD_OUT, "0|held out")
    assert sorted([*kept, *apart]) == list(range(1797))
    for label in range(digits.DIGIT_CLASSES):
        share = (whole.labels[apart] == label).sum() / (whole.labels == label).sum()
        assert share == pytest.approx(digits.HELD_OUT, abs=0.005)
    # The embedded weights were trained without these: another split would be cheating.
    held_out = digits.split_digits()[1]
    np.testing.assert_array_equal(held_out.images, whole.images[apart])
    # Training sees what everybody sees.
    seen = normalize_images(to_grey(held_out), ENTRY.preprocessing)
    np.testing.assert_allclose(seen, held_out_pixels()[0], atol=1e-6)
    seen, unseen = digits.split_digits(0, validate=True)
    assert len(seen.labels) + len(unseen.labels) == len(kept)
    assert not np.array_equal(digits.split_digits(1)[1].labels, digits.split_digits(0)[1].labels)


@pytest.mark.full
def test_depths_of_scenes_that_nobody_trained_on():
    entry = info("depth_digits")
    assert sha256((DATA / entry.checkpoint).read_bytes()).hexdigest() == entry.digest
    assert (DATA / entry.checkpoint).stat().st_size <= 2_000_000
    _, apart = digits.split_digits()
    scenes = draw_scenes(apart, 300, 5)
    assert {int(which.max()) for which in scenes.digit_numbers} == {*range(1, MAX_DIGITS + 1)}
    found = measure(load("depth_digits"), entry, scenes)
    assert found.order >= 0.87 and found.error <= 0.06 and found.there >= 0.975


TOWERS = info("siglip_digits_dual")
TRAINED = ("{}", "a {}", "This is a photo of {}.", "the handwritten digit {}")
NEVER_TRAINED = ("Somebody wrote {} on paper", "My child's first {}!", "I see a {} here")
"""Sentences around the names of digits; those of the second kind have words that are in none of the
training's."""


@pytest.mark.parametrize(
    "templates",
    [pytest.param(TRAINED, marks=pytest.mark.full), NEVER_TRAINED],
    ids=["trained", "never trained"],
)
def test_words_for_digits_that_nobody_trained_on(templates):
    """Of ten sentences about a held-out digit the likeliest is right; measured: 98.3 to 98.9 %."""
    _, apart = digits.split_digits()
    model = load(TOWERS.name)
    for template, names in product(templates, sentences.WORDS_OF_DIGITS):
        texts = [template.format(name) for name in names]
        assert zero_shot(model, TOWERS, apart, texts) >= 0.97, template


def test_towers_of_digits_are_siglip_s():
    """transformers computes the same of the package's file and tokenizer, which it reads itself."""
    file = DATA / TOWERS.checkpoint
    assert sha256(file.read_bytes()).hexdigest() == TOWERS.digest
    assert file.stat().st_size <= 2_000_000
    model, texts = load(TOWERS.name), [*NEVER_TRAINED, "a three " * 9]
    asked = {"padding": "max_length", "max_length": 16, "truncation": True, "return_tensors": "pt"}
    ids = AutoTokenizer.from_pretrained(DATA)(texts, **asked)["input_ids"]
    np.testing.assert_array_equal(package_tokenizer(TOWERS)(texts), ids)
    theirs = siglip2.both(TOWERS.config, leaf_values(model))
    assert theirs.load_state_dict(load_file(file)).missing_keys == []
    pixels = np.array(
        normalize_images(to_grey(digits.split_digits()[1][np.arange(5)]), TOWERS.preprocessing)
    )
    with torch.no_grad():
        wanted = theirs(pixel_values=torch.from_numpy(pixels), input_ids=ids).logits_per_image
    given = jnp.asarray(pixels), jnp.asarray(ids.numpy(), jnp.int32)
    got = batched(model, *given)["logits_per_image"]
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-4)
    assert np.std(wanted.numpy()) > 1


@pytest.mark.full
def test_training_for_words_is_reproducible_and_lowers_the_loss(tmp_path):
    seen, _ = digits.split_digits()
    few, told = seen[np.arange(160)], sentences.all_sentences()
    for name in ("a", "b"):
        model, _ = train_words(TOWERS, few, told, 0, replace(WORD_RECIPE, epochs=1, warmup=1))
        save_weights(tmp_path / name, model, TOWERS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    _, losses = train_words(TOWERS, few, told, 0, replace(WORD_RECIPE, epochs=16, warmup=10))
    assert np.mean(losses[-20:]) < 0.9 * np.mean(losses[:20])


def test_every_word_of_training_is_known():
    """So that no sentence of it says less than it should."""
    backend = package_tokenizer(TOWERS).backend
    texts = sentences.all_sentences().texts
    assert all("<unk>" not in found.tokens for found in backend.encode_batch([*texts]))
    assert backend.get_vocab_size() == TOWERS.config.words.vocabulary


@pytest.mark.full
def test_the_loss_of_depths():
    """The mean errors where digits are and where none is, of a network that does not learn."""
    seen, _ = digits.split_digits()
    entry, scenes = info("depth_digits"), draw_scenes(seen, 8, 0)
    model, (loss,) = train_depth(entry, scenes, 0, replace(RECIPE, epochs=1, batch=8, rate=0.0))
    errors = np.abs(np.asarray(predict(model, entry, scenes.images)) - scenes.nearness)
    digit = scenes.nearness > 0
    assert loss == pytest.approx(errors[digit].mean() + errors[~digit].mean(), rel=1e-5)


@pytest.mark.full
def test_training_for_depth_lowers_the_loss():
    seen, _ = digits.split_digits()
    recipe = replace(RECIPE, epochs=3)
    _, losses = train_depth(info("depth_digits"), draw_scenes(seen, 320, 0), 0, recipe)
    assert np.mean(losses[-10:]) < 0.8 * np.mean(losses[:10])


@pytest.mark.full
def test_training_is_reproducible_and_lowers_the_loss(tmp_path):
    small = ENTRY.with_config(replace(ENTRY.config, dim=16, depth=1, heads=1, hidden=16))
    recipe = Recipe(epochs=5, batch=16, warmup=5, rate=2e-2, average=0.5, share=0.0)
    some = digits.split_digits(validate=True)[0][np.arange(160)]
    for name in ("a", "b"):
        model, losses = train(small, some, 3, recipe)
        save_weights(tmp_path / name, model, small)
        assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.2
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    before, after = (leaf_values(m) for m in (make_initial_model(small, jax.random.key(0)), model))
    periods = "local_pos_embed.periods"
    np.testing.assert_array_equal(after[periods], before[periods])


def test_training_that_would_be_for_nothing(tmp_path, monkeypatch):
    with pytest.raises(BadRequest, match="--validate"):
        train_digits._check_options(tmp_path / "a", validate=True)
    with pytest.raises(BadOutput, match="exists already"):
        train_digits._check_options(tmp_path, validate=False)
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(MissingLibrary, match="scikit-learn"):
        digits.load_digits()
