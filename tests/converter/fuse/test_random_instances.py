"""Random instances of every recogniser: before and after fusing, the graph computes the same."""

from __future__ import annotations

from collections.abc import Iterator

import jax
import numpy as np
import pytest

from converter.ir.evaluation import evaluate
from converter.verify.elements import Judge
from converter.verify.noise import Noise
from tests.converter.fuse import draw_activations, draw_attention, draw_groups, draw_norms
from tests.converter.fuse.drawing import Pencil, assert_drawn, stages

BLOCK, BLOCKS = 3, 100
DRAWN = {
    "layer_norm": draw_norms.layer_norm,
    "rms_norm": draw_norms.rms_norm,
    "gelu": draw_activations.gelu,
    "softmax": draw_activations.softmax,
    "log_softmax": draw_activations.log_softmax,
    "pairs": draw_activations.pairs,
    "attention": draw_attention.attention,
    "group_norm": draw_groups.group_norm,
}


@pytest.fixture(autouse=True)
def forget_compiled_steps() -> Iterator[None]:
    """Each draw has shapes of its own: a hundred of them hold gigabytes."""
    yield
    jax.clear_caches()


def blocks() -> Iterator[object]:
    """One block of each recogniser, every other one in the full tier, and more for the hunt."""
    for place, name in enumerate(DRAWN):
        chosen = pytest.mark.full if place % 2 else ()
        for block in range(BLOCKS):
            yield pytest.param(name, block, marks=chosen if block == place else pytest.mark.hunt)


@pytest.mark.parametrize(("name", "block"), [*blocks()])
def test_a_block_of_instances(name, block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        assert_drawn(DRAWN[name](Pencil(np.random.default_rng(seed))))


def test_moments_that_cancel():
    """The variance of two elements as E[x^2] - E[x]^2 loses digits that the fused node keeps."""
    assert_drawn(draw_norms.layer_norm(Pencil(np.random.default_rng(49))))


def test_what_is_no_rounding():
    """What is off by a hundredth throughout is noticed where rounding moves some numbers."""
    draw = draw_norms.layer_norm(Pencil(np.random.default_rng(49)))
    before, after = stages(draw.fn, draw.inputs)
    (wanted,), (fused,) = (evaluate(graph, draw.inputs) for graph in (before, after))
    judge = Judge(Noise(before.clone), [np.asarray(x) for x in draw.inputs])
    assert judge.wrong(0, np.asarray(fused) * 1.01, np.asarray(wanted)).any()
