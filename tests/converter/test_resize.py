"""Resizes that JAX does not compute as ONNX does, compared with their formulas in numpy.

`tests/programs/resize.py` has the programs that are compared with JAX.
"""

import numpy as np
import pytest

import converter
from converter.ir import ops
from converter.ir.formulas import ALIGNED
from converter.verify.sessions import run
from tests.programs.resize import to


def test_nearest_positions_are_rounded_exactly():
    """Position 2.5 * 10 / 25 is rounded to 1; XLA multiplies by 1 / 25, which rounds to 0."""
    x = np.arange(20, dtype=np.float32).reshape(2, 10)
    export = converter.to_onnx(to(2, 25, method="nearest"), [x])
    (actual,) = run(export, [x]).values()
    np.testing.assert_array_equal(actual, x[:, (2 * np.arange(25) + 1) * 10 // 50])
    assert export.report.fused["Resize"] == 1


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_aligned_corners_agree_with_numpy(count):
    x = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    actual = ops.resize.formula(x, axes=(0,), sizes=(count,), kinds=(ALIGNED,))
    positions = np.linspace(0, 4, count)
    expected = np.stack([np.interp(positions, np.arange(5), column) for column in x.T], 1)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-6)
