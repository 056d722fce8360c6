"""ConvNeXt's layers by themselves, against transformers' stages with the same weights."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
from transformers import DINOv3ConvNextConfig
from transformers.models.dinov3_convnext import modeling_dinov3_convnext as theirs

from tests.zoo.models.layers import ATOL, KEY, filled, inputs, perturbed, run
from zoo.models.convnext import Block, Downsampler, Stage, Stem

NORM = partial(eqx.nn.LayerNorm, eps=1e-6)
SETTINGS = DINOv3ConvNextConfig(hidden_sizes=[8, 12, 16, 20], depths=[2, 1, 1, 1])


BLOCK = Block(8, norm=NORM, key=KEY)
STEEP = partial(Block, layer_scale=0.5)


def parts_of(block, prefix=""):
    return {
        f"{prefix}depthwise_conv": block.dwconv,
        f"{prefix}layer_norm": block.norm,
        f"{prefix}pointwise_conv1": block.pwconv1,
        f"{prefix}pointwise_conv2": block.pwconv2,
        f"{prefix}gamma": block.ls.gamma,
    }


def agree(layer, module, x, channels_last):
    """On one map that is not square; theirs have the channels first."""
    ours = jnp.asarray(x.transpose(1, 2, 0) if channels_last else x)
    want = run(module, x)
    got = eqx.filter_jit(layer)(ours).transpose(2, 0, 1)
    np.testing.assert_allclose(got, want, rtol=0, atol=20 * ATOL)


def test_block():
    layer = perturbed(BLOCK)
    module = filled(theirs.DINOv3ConvNextLayer(SETTINGS, 8), parts_of(layer))
    agree(layer, module, inputs(8, 5, 9), channels_last=True)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("index", [0, 1])
def test_stage(index):
    """The first takes the image; what fills no pixel of the map is dropped."""
    narrower, dim, depth = ((None, 8, 2), (8, 12, 1))[index]
    layer = perturbed(Stage(narrower, dim, depth, STEEP, norm=NORM, key=KEY))
    down = (layer.downsample.conv, layer.downsample.norm)
    parts = {
        f"downsample_layers.{i}": part for i, part in enumerate(down if index == 0 else down[::-1])
    }
    for i, block in enumerate(layer.blocks):
        parts |= parts_of(block, f"layers.{i}.")
    module = filled(theirs.DINOv3ConvNextStage(SETTINGS, index), parts)
    agree(layer, module, inputs(narrower or 3, 18, 31), channels_last=index > 0)


def test_shapes_of_what_is_between():
    assert Stem(8, channels=1, key=KEY)(jnp.zeros((1, 11, 18))).shape == (2, 4, 8)
    assert Downsampler(8, 12, key=KEY)(jnp.zeros((5, 8, 8))).shape == (2, 4, 12)


def test_two_made_alike_have_one_structure():
    another = Block(8, norm=NORM, key=jr.key(1))
    assert jax.tree.structure(BLOCK) == jax.tree.structure(another)
