"""Random spellings of recurrent cells: found or not, and JAX's numbers, in ONNX Runtime too."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import converter
from tests.converter.fuse.draw_cells import recurrent
from tests.converter.fuse.drawing import Pencil, assert_drawn

BLOCK, FULL, HUNT = 2, 10, 1000
TOLERANCE = 2e-5
"""Ten units in the last place for each of seven rounds, of numbers that may grow tenfold."""


def blocks() -> list[object]:
    tiers = [*[pytest.mark.full] * FULL, *[pytest.mark.hunt] * HUNT]
    return [pytest.param(block, marks=tier) for block, tier in enumerate(tiers)]


@pytest.mark.parametrize("block", blocks())
def test_a_block_of_cells(block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert_drawn(recurrent(Pencil(np.random.default_rng(seed))))
        draw = recurrent(Pencil(np.random.default_rng(seed)))
        export = converter.to_onnx(draw.fn, draw.inputs)
        wanted = [np.asarray(y) for y in jax.tree.leaves(draw.fn(*draw.inputs))]
        session = converter.session(export)
        got = converter.run(session, [np.asarray(x) for x in draw.inputs]).values()
        for a, b in zip(got, wanted, strict=True):
            scale = max(1.0, float(abs(b).max()))
            np.testing.assert_allclose(a, b, rtol=0, atol=TOLERANCE * scale)
