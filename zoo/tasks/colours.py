"""Numbers as colours."""

import numpy as np
from numpy.typing import NDArray

from weights.initializers import Float32

UInt8 = NDArray[np.uint8]

PAPER, INK = (255, 255, 255), (32, 32, 32)
"""The colours of the background and the text of a drawing: red, green, blue."""

RAMP = np.array(
    [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], np.float32
)
"""From small to large: five colours of viridis, which stay in order in grey and for the colour
blind (Smith and van der Walt, 2015)."""


def components(patches: Float32) -> UInt8:
    """The first three principal components of all patches as red, green and blue.

    **Arguments:** [n, rows, columns, dim]. The components are those of all images together, so that
    what is alike in two of them has one colour. **Returns** [n, rows, columns, 3].
    """
    rows = patches.reshape(-1, patches.shape[-1])
    centred = rows - rows.mean(axis=0)
    directions = np.linalg.svd(centred, full_matrices=False)[2][:3]
    # The sign of a component is left open: its largest weight is made positive.
    largest = np.take_along_axis(directions, abs(directions).argmax(1)[:, None], axis=1)
    scores = centred @ (directions * np.sign(largest)).T
    return _spread(scores, axis=0).reshape(*patches.shape[:3], len(directions))


def ramp(values: Float32) -> UInt8:
    """Colours from the smallest to the largest value: [..., 3]."""
    level = _spread(values, axis=None).astype(np.float32) / 255 * (len(RAMP) - 1)
    bands = [np.interp(level, range(len(RAMP)), RAMP[:, band]) for band in range(3)]
    return np.stack(bands, axis=-1).round().astype(np.uint8)


def _spread(values: Float32, axis: int | None) -> UInt8:
    """From 0 to 255."""
    low, high = values.min(axis, keepdims=True), values.max(axis, keepdims=True)
    return (255 * (values - low) / np.maximum(high - low, 1e-12)).round().astype(np.uint8)
