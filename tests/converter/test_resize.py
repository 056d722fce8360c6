"""Resizes that no program of `tests/programs/resize.py` can show."""

import numpy as np
import pytest

import converter
from converter.ir import ops
from converter.ir.formulas import ALIGNED
from converter.verify.sessions import run
from tests.programs.resize import to


def test_a_half_between_neighbours_is_rounded_as_written():
    """XLA multiplies by 1 / 25 here, which gives 0 where floor(2.5 * 10 / 25) is 1."""
    x = np.arange(20, dtype=np.float32).reshape(2, 10)
    export = converter.to_onnx(to(2, 25, method="nearest"), [x])
    (got,) = run(export, [x]).values()
    np.testing.assert_array_equal(got, x[:, (2 * np.arange(25) + 1) * 10 // 50])
    assert export.report.fused["Resize"] == 1


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_aligned_corners_are_interpolated_from_corner_to_corner(count):
    x = np.random.default_rng(0).standard_normal((5, 2)).astype(np.float32)
    got = ops.resize.formula(x, axes=(0,), sizes=(count,), kinds=(ALIGNED,))
    places = np.linspace(0, 4, count)
    wanted = np.stack([np.interp(places, np.arange(5), column) for column in x.T], 1)
    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6)
