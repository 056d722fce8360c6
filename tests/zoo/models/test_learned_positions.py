"""Learned positions by themselves, against torch's interpolation."""

import numpy as np
import pytest
import torch

from tests.zoo.models.layers import KEY, perturbed
from zoo.models.learned_positions import LearnedPositionEmbedding


@pytest.mark.parametrize("size", [(3, 5), (8, 2), (5, 6)])
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("cls_token", [False, True])
def test_another_grid_is_interpolated_as_torch_does(size, antialias, cls_token):
    layer = perturbed(
        LearnedPositionEmbedding(6, 5, cls_token=cls_token, antialias=antialias, key=KEY)
    )
    table = torch.tensor(np.asarray(layer.weight[cls_token:])).reshape(1, 5, 5, 6)
    want = torch.nn.functional.interpolate(
        table.permute(0, 3, 1, 2), size, mode="bicubic", antialias=antialias
    )
    got = layer(*size)
    assert len(got) == cls_token + size[0] * size[1]
    np.testing.assert_array_equal(got[:cls_token], layer.weight[:cls_token])
    want = want[0].permute(1, 2, 0).reshape(-1, 6).numpy()
    np.testing.assert_allclose(got[cls_token:], want, rtol=0, atol=1e-5)


def test_the_grid_of_training_is_the_table():
    layer = LearnedPositionEmbedding(6, 5, offset=0.1, key=KEY)
    assert layer(5, 5) is layer.weight
