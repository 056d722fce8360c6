"""Depths at the size of a picture, compared with the torch function that transformers calls."""

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
    """`DPTImageProcessor.post_process_depth_estimation` calls this function of torch.

    In cubic convolution, values of up to 10 change by up to 15 from one pixel to the next. A
    position along an edge of n pixels is rounded by n * 2**-24. The tolerance follows from both.
    """
    depth = np.random.default_rng(0).uniform(0, 10, size).astype(np.float32)
    expected = torch.nn.functional.interpolate(
        torch.from_numpy(depth)[None, None], size=target, mode="bicubic", align_corners=False
    )[0, 0]
    actual = depth_map(depth, target)
    assert actual.dtype == np.float32
    np.testing.assert_allclose(
        actual, expected.numpy(), rtol=0, atol=15 * 2 * max(size) * 2**-24 + 1e-5
    )
