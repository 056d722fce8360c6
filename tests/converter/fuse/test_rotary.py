"""Rotary embeddings of unusual values."""

import jax.numpy as jnp
import numpy as np
import pytest

import converter

ANGLES = np.linspace(0, 2, 9, dtype=np.float32).reshape(3, 3)


@pytest.mark.parametrize("tiled", [True, False])
def test_halves_of_what_is_padded_with_its_edge(tiled):
    """Its last column is repeated by slices that name no strides, on the way to the halves."""
    table = jnp.tile(ANGLES, 2) if tiled else jnp.repeat(ANGLES, 2, -1)

    def fn(x):
        t = jnp.pad(x, ((0, 2), (0, 0), (0, 1)), mode="edge")
        return t * jnp.cos(table) + jnp.concatenate([-t[..., 3:], t[..., :3]], -1) * jnp.sin(table)

    verdict = converter.check(converter.to_onnx(fn, [(1, 1, 5)]), fn)
    assert verdict.passed, verdict.differences
