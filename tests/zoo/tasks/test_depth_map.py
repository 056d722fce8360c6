"""Depths at the size of a picture, beside torch's function that transformers calls."""

import numpy as np
import pytest
import torch

from zoo.tasks.maps import depth_map

SIZES = [
    ((7, 9), (50, 31)),
    ((37, 28), (480, 643)),
    ((50, 60), (20, 60)),
    ((50, 60), (49, 200)),
    ((1, 5), (9, 2)),
    ((24, 30), (24, 30)),
]


@pytest.mark.parametrize(("size", "target"), SIZES)
def test_depths_are_enlarged_as_transformers_does(size, target):
    """`DPTImageProcessor.post_process_depth_estimation` is this call of torch's.

    Values of up to 10 change by up to 15 from one pixel to the next in cubic convolution. A
    position along an edge of n pixels is known to n * 2**-24, so that is the rounding.
    """
    depth = np.random.default_rng(0).uniform(0, 10, size).astype(np.float32)
    want = torch.nn.functional.interpolate(
        torch.from_numpy(depth)[None, None], size=target, mode="bicubic", align_corners=False
    )[0, 0]
    got = depth_map(depth, target)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, want.numpy(), rtol=0, atol=15 * 2 * max(size) * 2**-24 + 1e-5)
