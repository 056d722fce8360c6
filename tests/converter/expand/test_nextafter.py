"""Neighbours of floating point numbers, to the last bit."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.converter.expand.accuracy import both


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_neighbours(dtype):
    info, rng = jnp.finfo(dtype), np.random.default_rng(5)
    powers = 2.0 ** np.arange(info.minexp - info.nmant, info.maxexp)
    near = [np.nextafter(powers.astype(dtype), np.array(to, dtype)) for to in (0, 4)]
    ends = [0, -0.0, info.max, info.tiny, info.smallest_subnormal, np.inf, np.nan, 1, -1]
    drawn = rng.standard_normal(300) * powers[rng.integers(0, len(powers), 300)]
    x = np.concatenate([powers, *near, ends, drawn]).astype(dtype)
    x = np.concatenate([x, -x, x, x])
    y = np.concatenate([np.full(len(x) // 4, to) for to in (np.inf, 1, -np.inf, np.nan)])
    y[::7] = x[::7]
    y = y.astype(dtype)
    (ours,), (theirs,) = both(lax.nextafter, [x, y], 23)
    np.testing.assert_array_equal(ours, theirs)
