"""SigLIP 2's transformers for texts, and both towers, against transformers'."""

import equinox as eqx
import numpy as np
import pytest
import torch

import zoo
from tests.references import siglip2
from tests.seeded import model_of, nano, values_of
from tests.synthetic import make_image
from zoo.models.builder import batched

ATOL = 3e-5
"""Measured: 2e-6; of logits, which are sums of products of unit vectors, 1e-6."""

forward = eqx.filter_jit(batched)


def ids_of(config, texts):
    """Words at random, and a text that is shorter, as if padded."""
    ids = np.random.default_rng(1).integers(0, config.vocabulary, (texts, config.tokens))
    ids[-1, 7:] = 0
    return ids.astype(np.int32)


def test_a_tower_for_texts_agrees_with_transformers():
    config = nano(zoo.info("siglip2_vitgiantopt16_256_text").config)
    ids, values = ids_of(config, 3), values_of(config)
    with torch.no_grad():
        wanted = siglip2.texts(config, values)(torch.from_numpy(ids))
    got = forward(model_of(config), ids)
    for output in ("last_hidden_state", "pooler_output"):
        np.testing.assert_allclose(got[output], wanted[output], rtol=0, atol=ATOL)


@pytest.mark.parametrize("size", [pytest.param((64, 64), marks=pytest.mark.full), (48, 80)])
def test_both_towers_agree_with_transformers(size):
    config = nano(zoo.info("siglip2_vitb16_224_dual").config)
    pixels = np.stack([make_image(seed, *size) for seed in (1, 2)])
    ids, values = ids_of(config.words, 3), values_of(config)
    with torch.no_grad():
        wanted = siglip2.both(config, values)(
            pixel_values=torch.from_numpy(pixels),
            input_ids=torch.from_numpy(ids),
            interpolate_pos_encoding=True,
        )
    got = forward(model_of(config), pixels, ids)
    assert got["logits_per_image"].shape == (2, 3)
    for output, value in got.items():
        np.testing.assert_allclose(value, wanted[output], rtol=0, atol=ATOL)
