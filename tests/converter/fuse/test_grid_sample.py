"""Bilinear sampling: what lies outside of the image, and what a strict conversion leaves alone."""

from functools import partial

import numpy as np
import pytest

import converter
from tests.programs.sampling import CHW, HWC, POINTS, SPELLED, coordinates, four


def sampled(fn, x, points, **how):
    export = converter.to_onnx(fn, [(x.shape, "float32"), (points.shape, "float32")], **how)
    (found,) = converter.run(export, [x, points]).values()
    return export, found


@pytest.mark.parametrize("fn", [partial(coordinates, mode="nearest"), coordinates])
def test_places_far_away(fn):
    """ONNX Runtime gives nothing where weights are lost, the edge's pixels included."""
    x = np.random.default_rng(0).normal(size=CHW).astype(np.float32)
    places = [[0, 1e6], [-1e9, 0.25], [1e9, -1e9], [-0.5, -1], [1, 1], [0.9999, 4 / 3]]
    points = np.array(places, np.float32)
    export, found = sampled(fn, x, points, opset=18)
    assert export.report.histogram["GridSample"] == 1
    np.testing.assert_allclose(found, fn(x, points), rtol=0, atol=2e-6)


def test_strict_keeps_what_is_no_number():
    x = np.random.default_rng(0).normal(size=HWC).astype(np.float32)
    points = np.full(POINTS, np.nan, np.float32)
    export, found = sampled(four, x, points, strict=True)
    assert "GridSample" not in export.report.histogram
    assert np.isnan(found).all() and np.isnan(four(x, points)).all()
    export, _ = sampled(four, x, points)
    assert any("GridSample gives a number" in said for said in map(str, export.report.deviations))


def test_open_sizes():
    """Of an image whose sides have names, at places in pixels and at shares of the sides."""
    for name, shape in (("coordinates", (3, "h", "w")), ("shares", (3, "h", "w"))):
        fn, (_, points) = SPELLED[name]
        export = converter.to_onnx(fn, [(shape, "float32"), (points, "float32")])
        assert export.report.histogram["GridSample"] == 1, name
        rng = np.random.default_rng(1)
        for size in ((5, 7), (9, 4)):
            x = rng.normal(size=(3, *size)).astype(np.float32)
            where = rng.normal(size=points).astype(np.float32)
            (found,) = converter.run(export, [x, where]).values()
            np.testing.assert_allclose(found, fn(x, where), rtol=0, atol=5e-6, err_msg=name)
