"""Single layers: positions, and settings that no network of the zoo has.

`test_vit_families.py` and `test_originals.py` compare layers as parts of networks.
"""

from dataclasses import asdict, replace

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

from tests.seeded import model_of
from weights import bind
from zoo.architectures.convnext.convnext_network import Stem
from zoo.architectures.depth.aligned_resize import resize_aligned
from zoo.architectures.parts.attention import Attention, AxialRoPE, GridRoPE
from zoo.architectures.parts.block import AttentionPool, Mlp
from zoo.architectures.parts.layer_options import LearnedPositions, RopeGrid, RopePeriods
from zoo.architectures.parts.layers import PatchEmbedding
from zoo.architectures.parts.learned_positions import LearnedPositionEmbedding
from zoo.architectures.vit.vit_config import ViTConfig

KEY = jr.key(0)

ATOL = 2e-6
"""Limit of a difference of outputs of unit size. Measured: 5e-7."""


def inputs(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def perturbed(layer):
    """Return the layer with noise on every parameter, so that no norm or scale is neutral."""
    noise = np.random.default_rng(7)
    return jax.tree.map(lambda x: x + noise.normal(0, 0.3, x.shape).astype(np.float32), layer)


def test_axial_rotation_with_another_base():
    """The grid is not square, and three tokens precede the patches."""
    settings = DINOv3ViTConfig(hidden_size=48, num_attention_heads=2, patch_size=4, rope_theta=1e3)
    tables = dinov3.DINOv3ViTRopePositionEmbedding(settings).eval()(torch.zeros(1, 3, 12, 20))
    q, k = inputs(2, 3 + 15, 24), inputs(2, 2, 18, 24)[1]
    expected = dinov3.apply_rotary_pos_emb(*(torch.from_numpy(x) for x in (q, k)), *tables)
    rotation = AxialRoPE(24, base=1e3)(3, 5, prefix_tokens=3)
    for x, theirs in zip((q, k), expected, strict=True):
        np.testing.assert_allclose(rotation(jnp.asarray(x)), theirs, rtol=0, atol=10 * ATOL)


@pytest.mark.parametrize(
    ("antialias", "cls_token", "mode"),
    [(False, True, "bicubic"), (True, False, "bicubic"), (True, True, "bilinear")],
)
def test_another_grid_is_interpolated_as_torch_does(antialias, cls_token, mode):
    size = (8, 2)
    linear = mode == "bilinear"
    options = {"cls_token": cls_token, "antialias": antialias, "linear": linear}
    positions = LearnedPositions(grid=5, columns=3, **options)
    layer = perturbed(LearnedPositionEmbedding(6, **asdict(positions), key=KEY))
    table = torch.tensor(np.asarray(layer.weight[cls_token:])).reshape(1, 5, 3, 6)
    expected = torch.nn.functional.interpolate(
        table.permute(0, 3, 1, 2), size, mode=mode, antialias=antialias
    )
    actual = layer(*size)
    assert len(actual) == cls_token + size[0] * size[1]
    np.testing.assert_array_equal(actual[:cls_token], layer.weight[:cls_token])
    expected = expected[0].permute(1, 2, 0).reshape(-1, 6).numpy()
    np.testing.assert_allclose(actual[cls_token:], expected, rtol=0, atol=1e-5)
    shifted = LearnedPositionEmbedding(6, **asdict(replace(positions, offset=0.1)), key=KEY)
    assert shifted(5, 3) is shifted.weight


@pytest.mark.parametrize("channels", [1, 3])
def test_patches_of_other_channels_ignore_an_incomplete_patch(channels):
    layer, x = (
        perturbed(PatchEmbedding(6, 4, in_channels=channels, key=KEY)),
        inputs(channels, 11, 18),
    )
    weight, bias = (torch.tensor(np.asarray(leaf)) for leaf in (layer.proj.weight, layer.proj.bias))
    expected = torch.nn.functional.conv2d(torch.from_numpy(x), weight, bias.reshape(-1), 4)
    np.testing.assert_allclose(layer(jnp.asarray(x)), expected, rtol=0, atol=10 * ATOL)
    stem = Stem(8, in_channels=channels, norm=eqx.nn.LayerNorm, key=KEY)
    assert stem(jnp.asarray(x)).shape == (2, 4, 8)


NO_TOKEN = ViTConfig(dim=32, depth=1, heads=2, hidden=64, cls_token=False)
IMAGE = jnp.ones((3, 32, 48))
LINEAR = eqx.nn.Linear(2, 3, key=KEY)
HEADS = "multiple of heads: got 24 and 5"


def test_inconsistent_sizes_are_refused():
    for make, message in (
        (lambda: AxialRoPE(30, **asdict(RopePeriods())), "multiple of 4"),
        (lambda: GridRoPE(30, **asdict(RopeGrid())), "multiple of 4"),
        (lambda: GridRoPE(16, **asdict(RopeGrid()))(3, 5, 4), "1 and a square number: got 4"),
        (lambda: Attention(24, 5, qkv_bias=True, qk_norm=None, key=KEY), HEADS),
        (lambda: AttentionPool(24, 5, 40, ffn=Mlp, norm=eqx.nn.LayerNorm, key=KEY), HEADS),
        (lambda: model_of(NO_TOKEN), "pools or classifies the class token, but has none"),
        (lambda: bind(LINEAR, {"weight": IMAGE}), r"weight has shape \(3, 2\)"),
    ):
        with pytest.raises(ValueError, match=message):
            make()


@pytest.mark.parametrize(
    ("source_size", "size"),
    [((5, 7), (9, 98)), ((5, 7), (5, 3)), ((36, 50), (37, 1)), ((1, 4), (6, 4))],
)
def test_aligned_corners_are_those_of_torch(source_size, size):
    """Resized maps and their gradients are those of torch."""
    x, cotangent = inputs(2, *source_size), inputs(2, *size)
    theirs = torch.from_numpy(x)[None].requires_grad_()
    expected = torch.nn.functional.interpolate(theirs, size, mode="bilinear", align_corners=True)
    expected.backward(torch.from_numpy(cotangent)[None])
    actual, vjp = jax.vjp(lambda x: resize_aligned(x, size), jnp.asarray(x))
    # A position is rounded to float32. The result differs by the rounding times the steepest edge.
    steepest = max(float(np.abs(np.diff(x, axis=i)).max(initial=0)) for i in (1, 2))
    np.testing.assert_allclose(
        actual, expected[0].detach(), rtol=0, atol=ATOL + max(source_size) * 2**-24 * steepest
    )
    assert theirs.grad is not None
    atol = ATOL * max(1, float(theirs.grad.abs().max()))
    np.testing.assert_allclose(vjp(jnp.asarray(cotangent))[0], theirs.grad[0], rtol=0, atol=atol)
