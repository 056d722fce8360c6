"""What failed once does not fail again."""

from __future__ import annotations

import jax
import numpy as np
import pytest

import converter
from tests.fuzz.cases import CASES, Case


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            case,
            id=case.name,
            marks=pytest.mark.xfail(reason=case.xfail, strict=True) if case.xfail else (),
        )
        for case in CASES
    ],
)
def test_case(case: Case):
    rng = np.random.default_rng(0)
    weights = [rng.standard_normal(shape).astype(np.float32) for shape in case.weights] or None
    how = {"opset": case.opset, "strict": case.strict, "params": weights}
    fn = jax.jit(case.fn)
    with jax.enable_x64(case.x64):
        try:
            export = converter.to_onnx(case.fn, case.specs, **how)
        except converter.Unsupported:
            return
        verdict = converter.check(export, lambda *xs: fn(weights, *xs) if weights else fn(*xs))
    assert verdict.passed, verdict.differences
