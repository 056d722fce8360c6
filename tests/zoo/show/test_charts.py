"""`zoo bench --plot` and `zoo verify --plot`: bars, maps and histograms of what was measured.

The commands are run by tests/test_pages.py.
"""

import numpy as np
import pytest

from zoo.show.chart import COLOURS, LENGTH, bars, histogram
from zoo.show.residuals import draw_residuals, patch_means, summary

DARK, BRIGHT = (68, 1, 84), (253, 231, 37)


def lengths(picture, colour):
    """Pixels of this colour in the rows that have any."""
    counts = (np.asarray(picture) == colour).all(axis=-1).sum(axis=1)
    return sorted(set(counts[counts > 20].tolist()))


def test_bars_are_as_long_as_the_numbers():
    groups = {"one.onnx": {"median": 1.0, "fastest": 2.0}, "two.onnx": {"median": 0.5}}
    picture = bars("Ratios", groups, mark=1)
    assert lengths(picture, COLOURS[1])[-1] == pytest.approx(LENGTH, abs=2)
    short, long = (lengths(picture, COLOURS[0])[index] for index in (0, -1))
    assert short == pytest.approx(LENGTH / 4, abs=2) and long == pytest.approx(LENGTH / 2, abs=2)
    assert bars("Nothing ran", {"one.onnx": {"median": None}}).width > LENGTH


def test_a_histogram_counts_magnitudes():
    """Three quarters of the numbers in one bar, the others, nearer to zero, in the next decade."""
    picture = histogram(np.array([2e-3, 2e-3, -2e-3, 2e-4, np.nan]), (320, 122))
    blue = (np.asarray(picture) == COLOURS[0]).all(axis=-1)
    columns = np.flatnonzero(blue[:99].any(axis=0))
    assert columns.min() > 320 * 6 / 8 and blue.sum(axis=0).max() == pytest.approx(99, abs=2)
    heights = blue.sum(axis=0)
    assert heights[heights > 5].min() == pytest.approx(99 / 3, abs=2)
    assert histogram(np.zeros(5), (320, 122)).size == (320, 122)


def test_errors_are_drawn_where_they_are():
    """The last two rows of three are wrong; two tokens lie before the patches."""
    errors = np.zeros((1, 2 + 3 * 5, 4), np.float32)
    errors[0, 0], errors[0, 2 + 5 :] = 3e-4, 1e-3
    np.testing.assert_allclose(patch_means(errors, (3, 5)), [[0] * 5, [1e-3] * 5, [1e-3] * 5])
    told = summary("last_hidden_state", errors, (3, 5))
    assert told.endswith(
        "largest 1.0e-03, mean 6.1e-04, of the 2 tokens before the patches 1.5e-04"
    )
    picture = draw_residuals("Errors", {"last_hidden_state": errors}, (3, 5))
    pixels = np.asarray(picture)
    bright, dark = ((pixels == colour).all(axis=-1).sum() for colour in (BRIGHT, DARK))
    assert bright == pytest.approx(2 * dark, rel=0.02)
    as_map = np.moveaxis(errors[:, 2:].reshape(1, 3, 5, 4), 3, 1)
    np.testing.assert_array_equal(patch_means(as_map, (3, 5)), patch_means(errors, (3, 5)))
    assert patch_means(np.ones((1, 7), np.float32), (3, 5)).shape == (1, 7)
