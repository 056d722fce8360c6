"""Products of matrices and vectors, which ONNX Runtime's optimiser takes for others."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import converter

W = np.arange(1, 16, dtype=np.float32).reshape(3, 5) / 7

PRODUCTS = {
    "matrix vector": (lambda a, v: a @ v, (4, 5), (5,)),
    "transposed matrix vector": (lambda a, v: a.T @ v, (5, 4), (5,)),
    "square": (lambda a, v: jnp.sin(a).T @ v, (5, 5), (5,)),
    "vector transposed matrix": (lambda v, a: v @ a.T, (5,), (4, 5)),
    "batch": (lambda a, v: jnp.einsum("cab,a->cb", a, v), (2, 5, 3), (5,)),
    "vector batch": (lambda v, a: jnp.einsum("b,cab->ca", v, a), (3,), (2, 5, 3)),
    "scaled": (lambda a, v: jnp.einsum("cab,a->cb", 2 * a, v), (2, 5, 3), (5,)),
    "sum": (lambda a, v: jnp.einsum("cab,a->cb", a + a[:1], v), (2, 5, 3), (5,)),
    "three operands": (lambda x, v: jnp.einsum("a,ba,a->b", x, W, v), (5,), (5,)),
    "lanes": (jax.vmap(lambda a, v: a.T @ v), (2, 5, 3), (2, 5)),
    "lanes of the matrix": (jax.vmap(lambda a, v: a.T @ v, (1, None)), (5, 2, 3), (5,)),
    "two vectors": (lambda u, v: u @ v, (5,), (5,)),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    fn, *shapes = PRODUCTS[name]
    export = converter.to_onnx(fn, shapes)
    rng = np.random.default_rng(3)
    verdict = converter.check(export, fn, [rng.standard_normal(s, np.float32) for s in shapes])
    assert verdict.passed, verdict.differences
