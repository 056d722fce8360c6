"""Colours of answers, compared with matplotlib's."""

import matplotlib
import numpy as np

from zoo.tasks.maps import RAMP


def test_the_ramp_is_viridis():
    theirs = matplotlib.colormaps["viridis"](np.linspace(0, 1, len(RAMP)))[:, :3]
    assert np.array_equal(RAMP, np.rint(255 * theirs))
