"""Resizes that no program of `tests/programs/resize.py` can show."""

import numpy as np

import converter
from converter.fuse.resampling import known_kinds
from converter.ir.formulas import ALIGNED
from converter.verify.sessions import run
from tests.programs.resize import corners, hats, to, translated


def test_a_half_between_neighbours_is_rounded_as_written():
    """XLA multiplies by 1 / 25 here, which gives 0 where floor(2.5 * 10 / 25) is 1."""
    x = np.arange(20, dtype=np.float32).reshape(2, 10)
    export = converter.to_onnx(to(2, 25, method="nearest"), [x])
    (got,) = run(export, [x]).values()
    np.testing.assert_array_equal(got, x[:, (2 * np.arange(25) + 1) * 10 // 50])
    assert export.report.fused["Resize"] == 1


def test_aligned_corners_between_large_sizes():
    """Half-pixel positions are as near as JAX rounds; those of aligned corners are nearer."""
    assert known_kinds(hats(1100, corners(1100, 1101)), 17) == (ALIGNED,)


def test_a_size_that_may_be_one_has_no_corners():
    (miss,) = converter.to_onnx(lambda x: translated(x, 4), [("B", "H")]).report.near_misses
    assert "where a size is 1" in miss.reason
