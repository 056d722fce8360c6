"""Bilinear sampling: what lies outside of the image, and what a strict conversion leaves alone."""

from functools import partial

import jax
import numpy as np
import pytest
from jax.scipy.ndimage import map_coordinates

import converter
from tests.programs.sampling import CHW, POINTS, coordinates, shares


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
    x = np.random.default_rng(0).normal(size=CHW).astype(np.float32)
    points = np.full(POINTS, np.nan, np.float32)
    nearest = partial(coordinates, mode="nearest")
    export, found = sampled(nearest, x, points, strict=True)
    assert "GridSample" not in export.report.histogram
    assert np.isnan(found).all() and np.isnan(nearest(x, points)).all()
    export, _ = sampled(nearest, x, points)
    assert any("GridSample gives a number" in said for said in map(str, export.report.deviations))


def placed(x, points):
    """At columns and rows in pixels that are an input."""
    where = points[:, 1], points[:, 0]
    return jax.vmap(lambda c: map_coordinates(c, where, order=1, mode="nearest"))(x)


@pytest.mark.parametrize("sides", [("h", "w"), ("h", 7), (5, "w")])
@pytest.mark.parametrize("fn", [coordinates, shares, placed])
def test_open_sizes(fn, sides):
    """Of an image whose sides have names, at places in pixels and at shares of the sides."""
    export = converter.to_onnx(fn, [((3, *sides), "float32"), (POINTS, "float32")])
    assert export.report.histogram["GridSample"] == 1
    rng = np.random.default_rng(1)
    for height, width in ((5, 7), (9, 4)):
        size = (height if sides[0] == "h" else 5, width if sides[1] == "w" else 7)
        x = rng.normal(size=(3, *size)).astype(np.float32)
        where = 3 * rng.normal(size=POINTS).astype(np.float32)
        (found,) = converter.run(export, [x, where]).values()
        np.testing.assert_allclose(found, fn(x, where), rtol=0, atol=1e-5)
