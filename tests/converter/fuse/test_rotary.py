"""Rotary embeddings of unusual values."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

import converter

ANGLES = np.linspace(0, 2, 9, dtype=np.float32).reshape(3, 3)


def rotated(t, table):
    cos, sin = jnp.cos(table), jnp.sin(table)
    return t * cos + jnp.concatenate([-t[..., 3:], t[..., :3]], -1) * sin


@pytest.mark.parametrize("tiled", [True, False])
@pytest.mark.parametrize(
    ("shape", "pads"),
    [((3, 5), ((0, 0), (0, 1))), ((1, 1, 5), ((0, 2), (0, 0), (0, 1)))],
)
def test_halves_of_what_is_padded_with_its_edge(shape, pads, tiled):
    """Its last column is repeated by slices that name no strides, on the way to the halves."""
    table = jnp.tile(ANGLES, 2) if tiled else jnp.repeat(ANGLES, 2, -1)

    def fn(x):
        return rotated(jnp.pad(x, pads, mode="edge"), table)

    export = converter.to_onnx(fn, [shape])
    verdict = converter.check(export, fn)
    assert verdict.passed, verdict.differences
