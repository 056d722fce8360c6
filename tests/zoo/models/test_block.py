"""A block, and the layers around the blocks, by themselves."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig, SiglipVisionConfig
from transformers.models.dinov3_vit.modeling_dinov3_vit import DINOv3ViTLayer
from transformers.models.siglip.modeling_siglip import SiglipMultiheadAttentionPoolingHead

from tests.zoo.models.layers import ATOL, KEY, filled, inputs, perturbed, run
from zoo.models.block import Block
from zoo.models.feed_forward import Mlp, SwiGlu
from zoo.models.layers import LayerScale, PatchEmbedding, gelu_tanh
from zoo.models.pool import AttentionPool, class_token, mean_of_patches
from zoo.models.rope import AxialRoPE

NORM = partial(eqx.nn.LayerNorm, eps=1e-6)


def slices(linear, count):
    """The layers whose rows are in one layer."""
    return [jax.tree.map(lambda leaf, i=i: jnp.split(leaf, count)[i], linear) for i in range(count)]


@pytest.mark.parametrize("gated", [False, True])
def test_block_agrees_with_transformers(gated):
    make = partial(Block, 24, 2, 40, feed_forward=SwiGlu if gated else Mlp, norm=NORM)
    layer = perturbed(make(layer_scale=0.5, key=KEY))
    settings = DINOv3ViTConfig(
        hidden_size=24,
        num_attention_heads=2,
        intermediate_size=40,
        use_gated_mlp=gated,
        hidden_act="silu" if gated else "gelu",
        key_bias=True,
        layer_norm_eps=1e-6,
        attn_implementation="eager",
    )
    q, k, v = slices(layer.attn.qkv, 3)
    names = ("gate_proj", "up_proj", "down_proj") if gated else ("up_proj", "down_proj")
    mlp = layer.mlp
    parts = (mlp.w1, mlp.w2, mlp.w3) if gated else (mlp.fc1, mlp.fc2)
    theirs = filled(
        DINOv3ViTLayer(settings),
        {
            "norm1": layer.prenorm,
            "attention.q_proj": q,
            "attention.k_proj": k,
            "attention.v_proj": v,
            "attention.o_proj": layer.attn.proj,
            "layer_scale1.lambda1": layer.ls1.gamma,
            "norm2": layer.norm,
            "layer_scale2.lambda1": layer.ls2.gamma,
            **{f"mlp.{name}": part for name, part in zip(names, parts, strict=True)},
        },
    )
    rotation = AxialRoPE(12)(2, 3, prefix_tokens=1)
    tables = tuple(torch.tensor(np.asarray(t)) for t in (rotation.cos[1:], rotation.sin[1:]))
    x = inputs(1 + 6, 24)
    want = run(theirs, x, position_embeddings=tables)
    np.testing.assert_allclose(
        eqx.filter_jit(layer)(jnp.asarray(x), rotation), want, rtol=0, atol=20 * ATOL
    )


def test_attention_pool_agrees_with_transformers():
    layer = perturbed(
        AttentionPool(
            24, 2, 40, feed_forward=partial(Mlp, activation=gelu_tanh), norm=NORM, key=KEY
        )
    )
    settings = SiglipVisionConfig(hidden_size=24, num_attention_heads=2, intermediate_size=40)
    theirs = filled(
        SiglipMultiheadAttentionPoolingHead(settings),
        {
            "probe": layer.latent,
            "attention.in_proj_weight": jnp.concatenate([layer.q.weight, layer.kv.weight]),
            "attention.in_proj_bias": jnp.concatenate([layer.q.bias, layer.kv.bias]),
            "attention.out_proj": layer.proj,
            "layernorm": layer.norm,
            "mlp.fc1": layer.mlp.fc1,
            "mlp.fc2": layer.mlp.fc2,
        },
    )
    x = inputs(7, 24)
    np.testing.assert_allclose(layer(jnp.asarray(x)), run(theirs, x), rtol=0, atol=20 * ATOL)
    with pytest.raises(ValueError, match="multiple of heads: got 24 and 5"):
        AttentionPool(24, 5, 40, key=KEY)


def test_pools_without_parameters():
    x = inputs(7, 4)
    np.testing.assert_array_equal(class_token(jnp.asarray(x), 3), x[0])
    np.testing.assert_allclose(mean_of_patches(jnp.asarray(x), 3), x[3:].mean(0), rtol=1e-5)


@pytest.mark.parametrize("channels", [1, 3])
def test_patch_embedding_drops_what_fills_no_patch(channels):
    layer = PatchEmbedding(6, 4, channels=channels, key=KEY)
    assert layer.patch_size == 4
    theirs = filled(torch.nn.Conv2d(channels, 6, 4, 4), {"": layer.proj})
    x = inputs(channels, 11, 18)
    got = layer(jnp.asarray(x))
    assert got.shape == (6, 2, 4)
    np.testing.assert_allclose(got, run(theirs, x), rtol=0, atol=10 * ATOL)


def test_layer_scale():
    layer = perturbed(LayerScale(4, 0.1))
    x = inputs(2, 3, 4)
    np.testing.assert_array_equal(layer(jnp.asarray(x)), x * np.asarray(layer.gamma))
    np.testing.assert_array_equal(LayerScale(4, 0.1).gamma, np.full(4, 0.1, np.float32))
