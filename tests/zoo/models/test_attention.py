"""Attention by itself, against PyTorch's and Equinox's with the same weights."""

from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.random as jr
import numpy as np
import pytest
import torch

from tests.zoo.models.layers import ATOL, KEY, inputs, perturbed
from zoo.models.attention import Attention
from zoo.models.rope import AxialRoPE


def by_torch(layer, x, q_norm=lambda q: q, k_norm=lambda k: k, rotation=lambda x: x):
    """`scaled_dot_product_attention` of three separate projections."""
    parts = [None] * 3 if layer.qkv.bias is None else jnp.split(layer.qkv.bias, 3)
    heads = []
    for weight, bias in zip(jnp.split(layer.qkv.weight, 3), parts, strict=True):
        values = x @ weight.T + (0 if bias is None else bias)
        heads.append(values.reshape(len(x), layer.heads, -1).transpose(1, 0, 2))
    q, k, v = rotation(q_norm(heads[0])), rotation(k_norm(heads[1])), heads[2]
    q, k, v = (torch.tensor(np.asarray(value)) for value in (q, k, v))
    out = torch.nn.functional.scaled_dot_product_attention(q, k, v).numpy()
    out = out.transpose(1, 0, 2).reshape(x.shape)
    return out @ np.asarray(layer.proj.weight).T + np.asarray(layer.proj.bias)


@pytest.mark.parametrize("bias", [True, False])
def test_agrees_with_pytorch(bias):
    layer = perturbed(Attention(24, 3, qkv_bias=bias, key=KEY))
    x = inputs(7, 24)
    np.testing.assert_allclose(layer(jnp.asarray(x)), by_torch(layer, x), rtol=0, atol=10 * ATOL)


def test_agrees_with_equinox():
    layer = perturbed(Attention(24, 3, key=KEY))
    weights = [getattr(layer.qkv, leaf) for leaf in ("weight", "bias")]
    (wq, wk, wv), (bq, bk, bv) = (jnp.split(weight, 3) for weight in weights)
    theirs = eqx.tree_at(
        lambda m: [
            *(part.weight for part in (m.query_proj, m.key_proj, m.value_proj, m.output_proj)),
            *(part.bias for part in (m.query_proj, m.key_proj, m.value_proj, m.output_proj)),
        ],
        eqx.nn.MultiheadAttention(
            3,
            24,
            use_query_bias=True,
            use_key_bias=True,
            use_value_bias=True,
            use_output_bias=True,
            key=KEY,
        ),
        [wq, wk, wv, layer.proj.weight, bq, bk, bv, layer.proj.bias],
    )
    x = jnp.asarray(inputs(7, 24))
    np.testing.assert_allclose(layer(x), theirs(x, x, x), rtol=0, atol=10 * ATOL)


def test_norms_and_rotation_of_queries_and_keys():
    """First the norms, of each head; then the rotation."""
    layer = perturbed(Attention(24, 3, qk_norm=partial(eqx.nn.RMSNorm, eps=1e-6), key=KEY))
    rotation = AxialRoPE(8)(2, 3, prefix_tokens=1)
    x = inputs(7, 24)

    def rms(norm):
        scale, shift = np.asarray(norm.weight), np.asarray(norm.bias)
        return lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * scale + shift

    want = by_torch(layer, x, rms(layer.q_norm), rms(layer.k_norm), rotation)
    np.testing.assert_allclose(layer(jnp.asarray(x), rotation), want, rtol=0, atol=10 * ATOL)


def test_two_made_alike_have_one_structure():
    one, two = (Attention(24, 3, qk_norm=eqx.nn.LayerNorm, key=jr.key(seed)) for seed in (0, 1))
    assert jax.tree.structure(one) == jax.tree.structure(two)


def test_heads_must_divide_the_channels():
    with pytest.raises(ValueError, match="dim must be a multiple of heads: got 24 and 5"):
        Attention(24, 5, key=KEY)
