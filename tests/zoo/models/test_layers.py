"""Layers by themselves: positions, and settings that no network of the zoo has.

As parts of networks they are compared in `test_vit_families.py` and `test_originals.py`.
"""

from dataclasses import asdict
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3
from transformers.models.gptj.modeling_gptj import rotate_every_two

from zoo.models.attention import Attention
from zoo.models.config import LearnedPositions, RopeGrid, RopePeriods
from zoo.models.convnext import Stem
from zoo.models.feed_forward import Mlp
from zoo.models.layers import PatchEmbedding
from zoo.models.learned_positions import LearnedPositionEmbedding
from zoo.models.pool import AttentionPool
from zoo.models.rope import AxialRoPE, GridRoPE, rotate_half, rotate_interleaved

KEY = jr.key(0)

ATOL = 2e-6
"""For outputs of unit size. Measured: 5e-7."""


def inputs(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def perturbed(layer):
    """The layer with noise on every parameter, so that no norm or scale is neutral."""
    noise = np.random.default_rng(7)
    return jax.tree.map(lambda x: x + noise.normal(0, 0.3, x.shape).astype(np.float32), layer)


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
    rotation = GridRoPE(16, **asdict(RopeGrid()))(3, 5, prefix_tokens=5)
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
    rotation = GridRoPE(16, **asdict(RopeGrid(length=6)))(3, 2, prefix_tokens=5)
    assert np.all(np.asarray(rotation.cos[0]) == 1)
    rows, columns = np.repeat([0, 2, 4], 2), np.tile([0, 3], 3)
    np.testing.assert_allclose(rotation.sin[5:, 0], np.sin(rows), rtol=0, atol=ATOL)
    np.testing.assert_allclose(rotation.sin[5:, 1], np.sin(rows), rtol=0, atol=ATOL)
    np.testing.assert_allclose(rotation.sin[5:, 8], np.sin(columns), rtol=0, atol=ATOL)
    registers = np.asarray(rotation.sin[1:5])
    np.testing.assert_allclose(registers[:, 0], np.sin([0, 0, 1, 1]), rtol=0, atol=ATOL)
    np.testing.assert_allclose(registers[:, 8], np.sin([0, 1, 0, 1]), rtol=0, atol=ATOL)


@pytest.mark.parametrize(("layer", "config"), [(AxialRoPE, RopePeriods()), (GridRoPE, RopeGrid())])
def test_head_width_must_allow_two_axes_and_two_halves(layer, config):
    with pytest.raises(ValueError, match="multiple of 4"):
        layer(head_dim=30, **asdict(config))


def test_registers_must_be_a_square():
    with pytest.raises(ValueError, match="1 and a square number: got 4"):
        GridRoPE(16, **asdict(RopeGrid()))(3, 5, prefix_tokens=4)


@pytest.mark.parametrize("size", [(3, 5), (8, 2)])
@pytest.mark.parametrize(("antialias", "cls_token"), [(False, True), (True, False)])
def test_another_grid_is_interpolated_as_torch_does(size, antialias, cls_token):
    positions = LearnedPositions(grid=5, cls_token=cls_token, antialias=antialias)
    layer = perturbed(LearnedPositionEmbedding(6, **asdict(positions), key=KEY))
    table = torch.tensor(np.asarray(layer.weight[cls_token:])).reshape(1, 5, 5, 6)
    want = torch.nn.functional.interpolate(
        table.permute(0, 3, 1, 2), size, mode="bicubic", antialias=antialias
    )
    got = layer(*size)
    assert len(got) == cls_token + size[0] * size[1]
    np.testing.assert_array_equal(got[:cls_token], layer.weight[:cls_token])
    want = want[0].permute(1, 2, 0).reshape(-1, 6).numpy()
    np.testing.assert_allclose(got[cls_token:], want, rtol=0, atol=1e-5)


def test_the_grid_of_training_is_the_table():
    layer = LearnedPositionEmbedding(6, **asdict(LearnedPositions(grid=5, offset=0.1)), key=KEY)
    assert layer(5, 5) is layer.weight


@pytest.mark.parametrize("channels", [1, 3])
def test_other_channels_and_a_rest_that_fills_no_patch(channels):
    layer, x = perturbed(PatchEmbedding(6, 4, channels=channels, key=KEY)), inputs(channels, 11, 18)
    weight, bias = (torch.tensor(np.asarray(leaf)) for leaf in (layer.proj.weight, layer.proj.bias))
    want = torch.nn.functional.conv2d(torch.from_numpy(x), weight, bias.reshape(-1), 4)
    np.testing.assert_allclose(layer(jnp.asarray(x)), want, rtol=0, atol=10 * ATOL)
    assert Stem(8, channels=channels, norm=eqx.nn.LayerNorm, key=KEY)(jnp.asarray(x)).shape == (
        2,
        4,
        8,
    )


def test_another_activation():
    layer, x = perturbed(Mlp(12, 20, activation=jax.nn.silu, key=KEY)), inputs(5, 12)
    (w1, b1), (w2, b2) = (
        [torch.tensor(np.asarray(leaf)) for leaf in (part.weight, part.bias)]
        for part in (layer.fc1, layer.fc2)
    )
    want = torch.nn.functional.silu(torch.from_numpy(x) @ w1.T + b1) @ w2.T + b2
    np.testing.assert_allclose(layer(jnp.asarray(x)), want, rtol=0, atol=10 * ATOL)


def test_attention_is_equinoxs():
    x = jnp.asarray(inputs(7, 24))
    for bias in (False, True):
        layer = perturbed(Attention(24, 3, qkv_bias=bias, qk_norm=None, key=KEY))
        named = {f"use_{part}_bias": bias for part in ("query", "key", "value")}
        theirs = eqx.nn.MultiheadAttention(3, 24, **named, use_output_bias=True, key=KEY)
        places = ("query_proj", "key_proj", "value_proj")
        for place, weight in zip(places, jnp.split(layer.qkv.weight, 3), strict=True):
            theirs = eqx.tree_at(lambda m, p=place: getattr(m, p).weight, theirs, weight)
        for place, row in zip(places, jnp.split(layer.qkv.bias, 3) if bias else (), strict=bias):
            theirs = eqx.tree_at(lambda m, p=place: getattr(m, p).bias, theirs, row)
        theirs = eqx.tree_at(lambda m: m.output_proj, theirs, layer.proj)
        np.testing.assert_allclose(layer(x), theirs(x, x, x), rtol=0, atol=10 * ATOL)


@pytest.mark.parametrize(
    "make",
    [
        partial(Attention, qkv_bias=True, qk_norm=None),
        partial(AttentionPool, hidden=40, ffn=Mlp, norm=eqx.nn.LayerNorm),
    ],
)
def test_heads_must_divide_the_channels(make):
    with pytest.raises(ValueError, match="multiple of heads: got 24 and 5"):
        make(24, 5, key=KEY)
