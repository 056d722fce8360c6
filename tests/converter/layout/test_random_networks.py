"""Random networks in channels-last, and random scales and shifts behind convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

import converter
from converter.pipeline import passes
from tests.converter.layout.draw_affine import Affine, affine
from tests.converter.layout.draw_networks import network

NETWORKS, AFFINES = 1, 2
"""So many instances are one test."""

VIEWS = {"Conv", "ConvTranspose", "Transpose", "Reshape"}


@pytest.fixture(autouse=True)
def forget_compiled_steps() -> Iterator[None]:
    """Each instance has shapes of its own."""
    yield
    jax.clear_caches()


def blocks(full: int, hunt: int) -> list[object]:
    """One for the default tier, so many for the full one, the others for the hunt."""
    tiers = [(), *[pytest.mark.full] * full, *[pytest.mark.hunt] * hunt]
    return [pytest.param(block, marks=tier) for block, tier in enumerate(tiers)]


def transposes(export: converter.Export) -> int:
    return export.report.histogram.get("Transpose", 0)


def assert_right(export: Any, fn: Any, inputs: list[Any], text: str) -> None:
    """With ONNX Runtime's optimiser on and off; a difference is one that rounding cannot explain.

    Layouts and folded weights change no number by less than a few units of the largest one, and
    whoever does is asked again by the strict judge.
    """
    wanted = jax.tree.leaves(fn(*inputs))
    verdict = converter.check(export.model, lambda *_: wanted, inputs)
    if not verdict.passed:
        verdict = converter.check(export, lambda *_: wanted, inputs)
    assert verdict.passed, f"{verdict.differences[0]}: {text}"


@pytest.mark.parametrize("block", blocks(30, 3000))
def test_networks(block, monkeypatch):
    """Right, and with no more transposes than if no region had been turned."""
    others = tuple(step for step in passes.PASSES if step.name != "channels")
    for seed in range(block * NETWORKS, (block + 1) * NETWORKS):
        net = network(seed)
        export = converter.to_onnx(net.fn, net.specs, params=net.params)
        with monkeypatch.context() as without:
            without.setattr(passes, "PASSES", others)
            plain = converter.to_onnx(net.fn, net.specs, params=net.params)
        assert transposes(export) <= transposes(plain), net.text()
        inputs = net.inputs()
        assert_right(export, lambda *xs, net=net: net.fn(net.params, *xs), inputs, net.text())


@pytest.mark.parametrize("block", blocks(30, 2000))
def test_scales_and_shifts(block, tmp_path):
    """Also with other values for the parameters, and where the weights stay as they are."""
    for seed in range(block * AFFINES, (block + 1) * AFFINES):
        drawn = affine(seed)
        export = converter.to_onnx(drawn.fn, drawn.inputs, params=drawn.params)
        if drawn.folded:
            assert set(export.report.histogram) <= VIEWS, drawn.text()
        assert_right(export, drawn.bound(drawn.params), drawn.inputs, drawn.text())
        _assert_bound_anew(drawn, export, tmp_path / "model.onnx")
        plain = converter.to_onnx(drawn.fn, drawn.inputs, params=drawn.params, fold=False)
        assert_right(plain, drawn.bound(drawn.params), drawn.inputs, drawn.text())
        tensors = (v.const_value for v in plain.model.graph.initializers.values())
        kept = [np.sort(t.numpy(), None).tolist() for t in tensors if t is not None]
        assert np.sort(drawn.params["w"], None).tolist() in kept, drawn.text()


def _assert_bound_anew(drawn: Affine, export: converter.Export, path: Any) -> None:
    values = drawn.others()
    export.save(path, values=values)
    verdict = converter.check(path, drawn.bound(values), drawn.inputs)
    assert verdict.passed, f"{verdict.differences[0]}: {drawn.text()}"
