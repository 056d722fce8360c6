"""Rotary positions by themselves, against transformers' and by what they are for."""

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.gptj.modeling_gptj import rotate_every_two

from tests.zoo.models.layers import ATOL, inputs
from zoo.models.rope import AxialRoPE, GridRoPE, rotate_half, rotate_interleaved


@pytest.mark.parametrize("base", [100.0, 1000.0])
def test_axial_rotation_is_that_of_transformers(base):
    """On a grid that is not square, with three tokens in front."""
    settings = DINOv3ViTConfig(hidden_size=48, num_attention_heads=2, patch_size=4, rope_theta=base)
    tables = dinov3.DINOv3ViTRopePositionEmbedding(settings).eval()(torch.zeros(1, 3, 12, 20))
    q, k = inputs(2, 3 + 15, 24), inputs(2, 2, 18, 24)[1]
    want = dinov3.apply_rotary_pos_emb(*(torch.from_numpy(x) for x in (q, k)), *tables)
    rotation = AxialRoPE(24, base=base)(3, 5, prefix_tokens=3)
    for x, theirs in zip((q, k), want, strict=True):
        np.testing.assert_allclose(rotation(jnp.asarray(x)), theirs, rtol=0, atol=10 * ATOL)


@pytest.mark.parametrize(
    ("ours", "theirs"), [(rotate_half, dinov3.rotate_half), (rotate_interleaved, rotate_every_two)]
)
def test_which_channels_are_a_pair(ours, theirs):
    x = inputs(1, 2, 3, 8)
    np.testing.assert_array_equal(ours(jnp.asarray(x)), theirs(torch.from_numpy(x)))


def test_grid_rotation_depends_on_distance_alone():
    """Row and column each have their share of the channels, and lengths stay."""
    rotation = GridRoPE(16, length=14)(3, 5, prefix_tokens=5)
    q, k = (jnp.asarray(np.tile(x, (1, 5 + 15, 1))) for x in inputs(2, 1, 1, 16))
    rotated = np.asarray(rotation(q)[0, 5:]).reshape(3, 5, 16)
    others = np.asarray(rotation(k)[0, 5:]).reshape(3, 5, 16)
    products = np.einsum("hwd,HWd->hwHW", rotated, others)
    np.testing.assert_allclose(products[0, 1, 1, 3], products[1, 2, 2, 4], rtol=0, atol=1e-4)
    assert abs(products[0, 1, 1, 3] - products[0, 1, 2, 3]) > 1e-2
    assert abs(products[0, 1, 1, 3] - products[0, 1, 1, 4]) > 1e-2
    lengths = np.linalg.norm(rotated, axis=-1)
    np.testing.assert_allclose(lengths, np.linalg.norm(q[0, 0]), rtol=1e-5)


def test_grid_angles_of_the_first_frequency():
    """It is 1: the angle is the row or the column in steps of the grid of training."""
    rotation = GridRoPE(16, length=6)(3, 2, prefix_tokens=5)
    assert np.all(np.asarray(rotation.cos[0]) == 1)
    rows, columns = np.repeat([0, 2, 4], 2), np.tile([0, 3], 3)
    np.testing.assert_allclose(rotation.sin[5:, 0], np.sin(rows), rtol=0, atol=ATOL)
    np.testing.assert_allclose(rotation.sin[5:, 1], np.sin(rows), rtol=0, atol=ATOL)
    np.testing.assert_allclose(rotation.sin[5:, 8], np.sin(columns), rtol=0, atol=ATOL)
    registers = np.asarray(rotation.sin[1:5])
    np.testing.assert_allclose(registers[:, 0], np.sin([0, 0, 1, 1]), rtol=0, atol=ATOL)
    np.testing.assert_allclose(registers[:, 8], np.sin([0, 1, 0, 1]), rtol=0, atol=ATOL)


@pytest.mark.parametrize("layer", [AxialRoPE, GridRoPE])
def test_head_width_must_allow_two_axes_and_two_halves(layer):
    with pytest.raises(ValueError, match="multiple of 4"):
        layer(head_dim=30)


def test_registers_must_be_a_square():
    with pytest.raises(ValueError, match="1 and a square number: got 4"):
        GridRoPE(16)(3, 5, prefix_tokens=4)
