"""Transformers for texts, and both towers, against transformers' and the original's."""

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
"""Measured: 3e-6; of logits, which are sums of products of unit vectors, 1e-6."""

forward = eqx.filter_jit(batched)


def texts_of(config, count):
    """Words at random, of which a text that is shorter has fewer, padded; by their names."""
    ids = np.random.default_rng(1).integers(1, config.vocabulary, (count, config.tokens))
    ids[-1, 7:] = 0
    if config.pool == "end":
        # Padding may be the word that ends a text, too.
        ids = np.where(ids == config.vocabulary - 1, 1, ids)
        ids[:-1, -1], ids[-2, 9:], ids[-1, 6] = (config.vocabulary - 1,) * 3
    masks = {"attention_mask": (ids != 0).astype(np.int32)} if config.masked else {}
    return {"input_ids": ids.astype(np.int32), **masks}


def in_torch(texts):
    return {name: torch.from_numpy(value).long() for name, value in texts.items()}


def assert_near(got, wanted):
    for output, value in got.items():
        np.testing.assert_allclose(value, wanted[output], rtol=0, atol=ATOL, err_msg=output)


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
        wanted = reference.texts(config, values_of(config))(**in_torch(texts))
    got = forward(model_of(config), *texts.values())
    if reference is clip:  # which has one name for it
        np.testing.assert_array_equal(got.pop("pooler_output"), got["text_embeds"])
    assert_near(got, wanted)


@pytest.mark.parametrize(
    ("name", "size"),
    [
        pytest.param("siglip2_vitb16_224_dual", (64, 64), marks=pytest.mark.full),
        ("siglip2_vitb16_224_dual", (48, 80)),
        # Positions of another grid are interpolated linearly.
        ("tipsv2_vitb14_dual", (42, 98)),
        pytest.param("tipsv2_vitg14_dual", (42, 98), marks=pytest.mark.full),
        # Those of CLIP by cubic convolution; one has the quick GELU, one the exact.
        ("clip_vitb32_dual", (96, 160)),
        ("clip_vith14_laion2b_dual", (98, 42)),
    ],
)
def test_both_towers_agree_with_transformers(name, size):
    config = nano(zoo.info(name).config)
    pixels = np.stack([make_image(seed, *size) for seed in (1, 2)])
    texts = texts_of(config.words, 3)
    reference = {"siglip": siglip2, "clip_v": clip, "tipsv2": tips}[name[:6]]
    asks = {} if reference is tips else {"interpolate_pos_encoding": True}
    theirs = reference.both(config, values_of(config))
    with torch.no_grad():
        wanted = theirs(pixel_values=torch.from_numpy(pixels), **in_torch(texts), **asks)
    got = forward(model_of(config), pixels, *texts.values())
    assert got["logits_per_image"].shape == (2, 3)
    assert_near(got, wanted)


@pytest.mark.full
def test_both_towers_of_dinotxt_agree_with_pytorch():
    config = nano(zoo.info("dinov3_vitl16_dinotxt_dual").config)
    pixels = np.stack([make_image(seed, 48, 80) for seed in (1, 2)])
    texts, model = texts_of(config.words, 3), model_of(config)
    original = dinotxt.both(config, values_of(config))
    with torch.no_grad():
        wanted = original(torch.from_numpy(pixels), **{"ids": in_torch(texts)["input_ids"]})
        tokens, vectors = original.texts(in_torch(texts)["input_ids"])
        patches, pooled = original.images(torch.from_numpy(pixels))
    assert_near(forward(model, pixels, *texts.values()), wanted)
    for tower, given, found in (
        (model.words, texts["input_ids"], (tokens, vectors)),
        (model.vision, pixels, (patches, pooled)),
    ):
        named = dict(zip(("last_hidden_state", "pooler_output"), found, strict=True))
        assert_near(forward(tower, given), named)


def test_an_empty_text_is_no_nan():
    """All of it is padding: its mean is that of nothing."""
    model = model_of(nano(zoo.info("tips_vits14_hr_text").config))
    empty = np.zeros((1, 64), np.int32)
    got = forward(model, empty, empty)
    assert np.isfinite(got["last_hidden_state"]).all() and not got["pooler_output"].any()
