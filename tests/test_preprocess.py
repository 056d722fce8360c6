"""Photographs to pixel values."""

import numpy as np
import pytest

import zoo
from zoo.photo import photograph, photographs
from zoo.preprocess import preprocess


def test_the_photograph():
    image = photograph()
    assert (image.mode, image.size) == ("RGB", (336, 224))


def test_variants_differ():
    images = photographs(6)
    assert len({(image.size, image.tobytes()) for image in images}) == 6
    assert photographs(1)[0].tobytes() == photograph().tobytes()


@pytest.mark.parametrize("name", ["dinov3_vits16", "dinov3_vitl16_sat493m"])
@pytest.mark.parametrize("size", [(224, 224), (96, 480), (448, 448)])
def test_resize_is_the_reference_processors(name, size):
    torch = pytest.importorskip("torch")
    how = zoo.info(name).preprocessing
    image = photograph()
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(pixels, size, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
    got = preprocess([image], how, size)
    assert (got.shape, got.dtype) == ((1, 3, *size), np.float32)
    np.testing.assert_allclose(got, ((resized - mean) / std).numpy(), rtol=0, atol=5e-5)
