"""Feed-forward networks by themselves, against transformers' classes with the same weights."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit import modeling_dinov3_vit as dinov3

from tests.zoo.models.layers import ATOL, KEY, filled, inputs, perturbed, run
from weights import bind, leaf_values
from zoo.models.feed_forward import Mlp, SwiGlu, SwiGluFused
from zoo.models.layers import gelu, gelu_tanh


def settings(act):
    return DINOv3ViTConfig(hidden_size=12, intermediate_size=20, hidden_act=act, mlp_bias=True)


@pytest.mark.parametrize(("ours", "theirs"), [(gelu, "none"), (gelu_tanh, "tanh")])
def test_gelus(ours, theirs):
    x = np.linspace(-6, 6, 1001, dtype=np.float32)
    want = torch.nn.functional.gelu(torch.from_numpy(x), approximate=theirs).numpy()
    np.testing.assert_allclose(ours(jnp.asarray(x)), want, rtol=0, atol=ATOL)


@pytest.mark.parametrize(
    ("make", "act"),
    [
        (Mlp, "gelu"),
        (partial(Mlp, activation=gelu_tanh), "gelu_pytorch_tanh"),
        (partial(Mlp, activation=jax.nn.silu), "silu"),
    ],
)
def test_mlp(make, act):
    layer = perturbed(make(12, 20, key=KEY))
    theirs = filled(
        dinov3.DINOv3ViTMLP(settings(act)), {"up_proj": layer.fc1, "down_proj": layer.fc2}
    )
    x = inputs(5, 12)
    np.testing.assert_allclose(layer(jnp.asarray(x)), run(theirs, x), rtol=0, atol=10 * ATOL)


def test_swiglu_and_its_fused_form():
    layer = perturbed(SwiGlu(12, 20, key=KEY))
    theirs = filled(
        dinov3.DINOv3ViTGatedMLP(settings("silu")),
        {"gate_proj": layer.w1, "up_proj": layer.w2, "down_proj": layer.w3},
    )
    x = inputs(5, 12)
    want = run(theirs, x)
    np.testing.assert_allclose(layer(jnp.asarray(x)), want, rtol=0, atol=10 * ATOL)

    rows = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), layer.w1, layer.w2)
    fused = SwiGluFused(12, 20, key=KEY)
    values = {
        f"{name}.{leaf}": value
        for name, part in (("w12", rows), ("w3", layer.w3))
        for leaf, value in leaf_values(part).items()
    }
    fused = bind(fused, values)
    np.testing.assert_allclose(fused(jnp.asarray(x)), want, rtol=0, atol=10 * ATOL)
