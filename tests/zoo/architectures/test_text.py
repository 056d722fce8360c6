"""Towers for texts, alone and with a tower for pictures, compared with transformers and PyTorch."""

import equinox as eqx
import numpy as np
import pytest
import torch

import zoo
from tests.references import clip, dinotxt, siglip2, tips
from tests.seeded import model_of, nano, values_of
from tests.synthetic import make_image
from zoo.architectures.builder import batched

ATOL = 3e-5
"""Limit of a difference. Measured: 3e-6, and 1e-6 for logits, which multiply unit vectors."""

forward = eqx.filter_jit(batched)


def texts_of(config, count):
    """Return `count` random texts as the inputs of a network. The last is shorter and padded."""
    ids = np.random.default_rng(1).integers(1, config.vocabulary, (count, config.tokens))
    ids[-1, 7:] = 0
    if config.pool == "end":
        # CLIP pads with the end token, which here also appears once in each text.
        ids = np.where(ids == config.vocabulary - 1, 1, ids)
        ids[:-1, -1], ids[-2, 9:], ids[-1, 6] = (config.vocabulary - 1,) * 3
    masks = {"attention_mask": (ids != 0).astype(np.int32)} if config.masked else {}
    return {"input_ids": ids.astype(np.int32), **masks}


def to_torch(texts):
    return {name: torch.from_numpy(value).long() for name, value in texts.items()}


def assert_near(actual, expected):
    for output, value in actual.items():
        np.testing.assert_allclose(value, expected[output], rtol=0, atol=ATOL, err_msg=output)


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("siglip2_vitgiantopt16_256_text", siglip2),
        ("tipsv2_vitb14_text", tips),
        ("clip_vitb32_text", clip),
    ],
)
def test_a_tower_for_texts_agrees_with_transformers(name, reference):
    config = nano(zoo.info(name).config)
    texts = texts_of(config, 3)
    with torch.no_grad():
        expected = reference.texts(config, values_of(config))(**to_torch(texts))
    actual = forward(model_of(config), *texts.values())
    if reference is clip:  # transformers has one name for this output
        np.testing.assert_array_equal(actual.pop("pooler_output"), actual["text_embeds"])
    assert_near(actual, expected)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param("siglip2_vitb16_224_dual", (64, 64), marks=pytest.mark.full),
        ("siglip2_vitb16_224_dual", (48, 80)),
        # Positions of another grid are interpolated linearly.
        ("tipsv2_vitb14_dual", (42, 98)),
        pytest.param("tipsv2_vitg14_dual", (42, 98), marks=pytest.mark.full),
        # CLIP's positions are interpolated by cubic convolution. One network has the quick GELU,
        # and the other the exact one.
        ("clip_vitb32_dual", (96, 160)),
        ("clip_vith14_laion2b_dual", (98, 42)),
    ],
)
def test_both_towers_agree_with_transformers(name, size):
    config = nano(zoo.info(name).config)
    pixels = np.stack([make_image(seed, *size) for seed in (1, 2)])
    texts = texts_of(config.words, 3)
    reference = {"siglip": siglip2, "clip_v": clip, "tipsv2": tips}[name[:6]]
    options = {} if reference is tips else {"interpolate_pos_encoding": True}
    theirs = reference.both(config, values_of(config))
    with torch.no_grad():
        expected = theirs(pixel_values=torch.from_numpy(pixels), **to_torch(texts), **options)
    actual = forward(model_of(config), pixels, *texts.values())
    assert actual["logits_per_image"].shape == (2, 3)
    assert_near(actual, expected)


@pytest.mark.full
def test_both_towers_of_dinotxt_agree_with_pytorch():
    config = nano(zoo.info("dinov3_vitl16_dinotxt_dual").config)
    pixels = np.stack([make_image(seed, 48, 80) for seed in (1, 2)])
    texts, model = texts_of(config.words, 3), model_of(config)
    original = dinotxt.both(config, values_of(config))
    with torch.no_grad():
        expected = original(torch.from_numpy(pixels), **{"ids": to_torch(texts)["input_ids"]})
        tokens, vectors = original.texts(to_torch(texts)["input_ids"])
        patches, pooled = original.images(torch.from_numpy(pixels))
    assert_near(forward(model, pixels, *texts.values()), expected)
    for tower, inputs, values in (
        (model.words, texts["input_ids"], (tokens, vectors)),
        (model.vision, pixels, (patches, pooled)),
    ):
        expected_outputs = dict(zip(("last_hidden_state", "pooler_output"), values, strict=True))
        assert_near(forward(tower, inputs), expected_outputs)


def test_an_empty_text_has_finite_outputs():
    """A text that is only padding has finite tokens and a vector of zeros."""
    model = model_of(nano(zoo.info("tips_vits14_hr_text").config))
    empty = np.zeros((1, 64), np.int32)
    outputs = forward(model, empty, empty)
    assert np.isfinite(outputs["last_hidden_state"]).all() and not outputs["pooler_output"].any()
