"""Limits of the differences between clients and JAX, with the measured differences."""

import numpy as np

from converter import compare

LARGEST = {"fp32": 1e-4, "fused": 1e-4}
"""Limits of the absolute error. Measured: 6e-6."""

COSINE = {"fp16": 0.9999, "int8": 0.99, "q4": 0.99, "q4f16": 0.99}
"""Limits of the cosine. Measured: 0.999999 in fp16, and 0.99895."""

ROUNDING = 2e-6
"""The limit for preprocessing in float32 in another order. Measured: 6e-7."""

RESIZED = 3
"""The limit of the mean absolute error of pixels that transformers.js resized, in levels of 8 bits.

It resizes with an affine transformation of sharp, which has no antialiasing and moves the centres
of pixels. Measured: 1.7 for DINOv3, 1.6 for SigLIP 2, 0.8 for DINOv2, 0.7 for ViT.
"""

FEATURES = 0.99
"""The limit of the cosine of the features of such pixels. Measured: 0.9977 and 0.99995."""


def assert_equals(variant, outputs, expected):
    """Assert that all outputs are there and within the limit of the variant."""
    assert set(outputs) == set(expected) - {"pixel_values"}
    for name, actual in outputs.items():
        assert actual.shape == expected[name].shape
        if variant in COSINE:
            assert compare(actual, expected[name]).cosine >= COSINE[variant], (variant, name)
        else:
            np.testing.assert_allclose(actual, expected[name], rtol=0, atol=LARGEST[variant])


def levels(first, second, preprocessing):
    """Return the mean absolute difference of pixels in levels of 8 bits."""
    assert first.shape == second.shape
    std = np.array(preprocessing.std)[:, None, None]
    return (np.abs(first - second) * std).mean() / preprocessing.rescale
