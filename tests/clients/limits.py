"""How far a client may be from JAX, and how far it is."""

import numpy as np

from converter import compare

LARGEST = {"fp32": 1e-4, "fused": 1e-4}
"""Absolute error; measured 6e-6."""

COSINE = {"fp16": 0.9999, "int8": 0.99, "q4": 0.99, "q4f16": 0.99}
"""Measured 0.999999 and 0.99895."""

ROUNDING = 2e-6
"""Of preprocessing in float32 in another order; measured 6e-7."""

RESIZED = 3
"""Mean absolute error, in levels of 8 bits, of pixels that transformers.js resized.

It resizes with sharp's affine transformation, which neither antialiases nor keeps the centres of
pixels in place: measured 1.7 for DINOv3, 1.6 for SigLIP 2, 0.8 for DINOv2, 0.7 for ViT.
"""

FEATURES = 0.99
"""Cosine of the features of such pixels; measured 0.9977 and 0.99995."""


def assert_equals(variant, got, wanted):
    """All the outputs there are, within the variant's limit."""
    assert set(got) == set(wanted) - {"pixel_values"}
    for name, value in got.items():
        assert value.shape == wanted[name].shape
        if variant in COSINE:
            assert compare(value, wanted[name]).cosine >= COSINE[variant], (variant, name)
        else:
            np.testing.assert_allclose(value, wanted[name], rtol=0, atol=LARGEST[variant])


def levels(a, b, how):
    """Mean absolute difference of pixels, in levels of 8 bits."""
    assert a.shape == b.shape
    std = np.array(how.std)[:, None, None]
    return (np.abs(a - b) * std).mean() / how.rescale
