"""Primitives that few functions of JAX hold, as they are."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import primitives

import converter

RNG = np.random.default_rng(13)
X = RNG.standard_normal((4, 4)).astype(np.float32)

UNCOMMON = {
    "householder_product": lambda x: lax.linalg.householder_product(x, x[:, 0] / 9),
    "lu_pivots_to_permutation": lambda x: lax.linalg.lu_pivots_to_permutation(
        lax.linalg.lu(x)[1], 4
    ),
    "name": lambda x: checkpoint_name(x * 2, "twice"),
    "remat": lambda x: jax.grad(lambda y: jax.checkpoint(jnp.sin)(y).sum())(x),
    "symmetric_product": lambda x: lax.linalg.symmetric_product(x, x.T @ x),
    "unstack": lambda x: jnp.unstack(x),
    "stack": lambda x: jnp.stack([x, x + 1]),
    "reduce_window": lambda x: lax.reduce_window(x, 2.0, lax.mul, (2, 2), (1, 1), "SAME"),
    "copy": lambda x: primitives.copy_p.bind(x) * 2,
    "high half": lambda x: lax.mulhi(x.astype(np.int32) * 99999, x.astype(np.int32) * 77777),
}


@pytest.mark.full
def test_uncommon():
    """All of them in one file."""

    def fn(x):
        return [row(x) for row in UNCOMMON.values()]

    verdict = converter.check(converter.to_onnx(fn, [X]), fn, [X])
    assert verdict.passed, verdict.differences
