"""Random spellings of activations: found or not, and JAX's numbers at the edges too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import converter
from converter.fuse.activations import INEXACT
from converter.ir import ops
from converter.ir.evaluation import evaluate
from tests.converter.fuse.draw_spellings import activation
from tests.converter.fuse.drawing import Draw, Pencil, stages

BLOCK, FULL, HUNT = 4, 25, 1000
OPSET = 24
"""Which has an operator for all of them."""

ABSOLUTE = 5e-6
"""What an operator that keeps absolute precision only may be off, its scale being 6 at most."""


@pytest.fixture(autouse=True)
def forget_compiled_steps() -> Iterator[None]:
    yield
    jax.clear_caches()


def blocks() -> list[object]:
    tiers = [(), *[pytest.mark.full] * FULL, *[pytest.mark.hunt] * HUNT]
    return [pytest.param(block, marks=tier) for block, tier in enumerate(tiers)]


@pytest.mark.parametrize("block", blocks())
def test_a_block_of_spellings(block):
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        draw = activation(Pencil(np.random.default_rng(seed)))
        before, after = stages(draw.fn, draw.inputs, OPSET)
        assert draw.count in (None, after.count(ops.named(draw.op))), (
            f"{draw.pencil.text()}\n{after}"
        )
        (wanted,) = evaluate(before, draw.inputs)
        (fused,) = evaluate(after, draw.inputs)
        inexact = any(after.count(op) for op in INEXACT)
        _close(draw, fused, wanted, ABSOLUTE if inexact else 0.0)
        for strict in (False, True):
            _assert_run(draw, wanted, strict)


def _assert_run(draw: Draw, wanted: jax.Array, strict: bool) -> None:
    """In ONNX Runtime; what the report names may keep absolute precision only."""
    export = converter.to_onnx(draw.fn, draw.inputs, opset=OPSET, strict=strict)
    assert not (strict and export.report.deviations), draw.pencil.text()
    absolute = ABSOLUTE if export.report.deviations else 0.0
    inputs = [np.asarray(x) for x in draw.inputs]
    for optimise in (True, False):
        session = converter.session(export, optimise=optimise)
        (got,) = converter.run(session, inputs).values()
        _close(draw, got, wanted, absolute)


def _close(draw: Draw, got: Any, wanted: Any, absolute: float) -> None:
    """To a few units in the last place, and the numbers that XLA flushes to zero."""
    a, b = (np.asarray(x) for x in (got, wanted))
    assert a.dtype == b.dtype
    info = np.finfo(b.dtype)
    relative, flushed = 32 * float(info.eps), 256 * float(info.smallest_normal)
    a, b = (x.astype(np.float64) for x in (a, b))
    if wanted.dtype == np.float16:  # ONNX Runtime's steps in between are wider, and do not overflow
        a = np.where(np.isinf(b) & np.isfinite(a), b, a)
    far = ~np.isclose(a, b, rtol=relative, atol=flushed + absolute, equal_nan=True)
    assert not far.any(), f"{a[far]} for {b[far]}: {draw.pencil.text()}"
