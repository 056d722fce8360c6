"""Bilinear sampling, compared with JAX: points outside of the image, NaN, and open image sizes."""

from functools import partial

import jax
import numpy as np
import pytest
from jax.scipy.ndimage import map_coordinates

import converter
from tests.programs.sampling import CHW, POINTS, coordinates, shares


def convert_and_run(fn, x, points, **options):
    """Return the export of `fn(x, points)` and its output."""
    export = converter.to_onnx(fn, [(x.shape, "float32"), (points.shape, "float32")], **options)
    (output,) = converter.run(export, [x, points]).values()
    return export, output


@pytest.mark.parametrize("fn", [partial(coordinates, mode="nearest"), coordinates])
def test_points_far_outside_of_the_image_match_jax(fn):
    """Points far outside of the image give the value of its edge, or zero, as in JAX.

    ONNX Runtime returns zero where its weights lose all digits, even at the pixels of the edge.
    """
    x = np.random.default_rng(0).normal(size=CHW).astype(np.float32)
    far_points = [[0, 1e6], [-1e9, 0.25], [1e9, -1e9], [-0.5, -1], [1, 1], [0.9999, 4 / 3]]
    points = np.array(far_points, np.float32)
    export, output = convert_and_run(fn, x, points, opset=18)
    assert export.report.histogram["GridSample"] == 1
    np.testing.assert_allclose(output, fn(x, points), rtol=0, atol=2e-6)


def test_strict_conversion_keeps_nan():
    x = np.random.default_rng(0).normal(size=CHW).astype(np.float32)
    points = np.full(POINTS, np.nan, np.float32)
    nearest = partial(coordinates, mode="nearest")
    export, output = convert_and_run(nearest, x, points, strict=True)
    assert "GridSample" not in export.report.histogram
    assert np.isnan(output).all() and np.isnan(nearest(x, points)).all()
    export, _ = convert_and_run(nearest, x, points)
    assert any("GridSample gives a number" in text for text in map(str, export.report.deviations))


def sampled_at_pixels(x, points):
    """Sample at points that are an input, as columns and rows in pixels."""
    rows_and_columns = points[:, 1], points[:, 0]
    return jax.vmap(lambda c: map_coordinates(c, rows_and_columns, order=1, mode="nearest"))(x)


@pytest.mark.parametrize("sides", [("h", "w"), ("h", 7), (5, "w")])
@pytest.mark.parametrize("fn", [coordinates, shares, sampled_at_pixels])
def test_images_of_open_sizes_match_jax(fn, sides):
    """An image with symbolic sides is sampled at points in pixels and in fractions of the sides."""
    export = converter.to_onnx(fn, [((3, *sides), "float32"), (POINTS, "float32")])
    assert export.report.histogram["GridSample"] == 1
    rng = np.random.default_rng(1)
    for height, width in ((5, 7), (9, 4)):
        size = (height if sides[0] == "h" else 5, width if sides[1] == "w" else 7)
        x = rng.normal(size=(3, *size)).astype(np.float32)
        points = 3 * rng.normal(size=POINTS).astype(np.float32)
        (output,) = converter.run(export, [x, points]).values()
        np.testing.assert_allclose(output, fn(x, points), rtol=0, atol=1e-5)
