"""Photographs to pixel values."""

import json

import numpy as np
import pytest

import zoo
from zoo.checkpoints.settings.huggingface import transformers_processor
from zoo.images.photograph import photograph, photographs
from zoo.images.pixel_values import pixel_values, resized_size


def test_the_photograph():
    image = photograph()
    assert (image.mode, image.size) == ("RGB", (336, 224))
    images = photographs(6)
    assert len({(image.size, image.tobytes()) for image in images}) == 6
    assert images[0].tobytes() == image.tobytes()


@pytest.mark.parametrize(
    ("name", "size"), [("dinov3_vits16", (224, 224)), ("dinov3_vitl16_sat493m", (96, 480))]
)
def test_resize_is_the_reference_processors(name, size):
    torch = pytest.importorskip("torch")
    how = zoo.info(name).preprocessing
    image = photograph()
    pixels = torch.from_numpy(np.array(image)).permute(2, 0, 1)[None].float() / 255
    resized = torch.nn.functional.interpolate(pixels, size, mode="bilinear", antialias=True)
    mean, std = (torch.tensor(values)[:, None, None] for values in (how.mean, how.std))
    got = pixel_values([image], how, size)
    assert (got.shape, got.dtype) == ((1, 3, *size), np.float32)
    np.testing.assert_allclose(got, ((resized - mean) / std).numpy(), rtol=0, atol=5e-5)


def pictures():
    """A wide one, a tall one, a small one and one with an odd rest to crop."""
    image = photograph()
    return [image, image.transpose(2), image.resize((97, 61)), image.crop((0, 0, 301, 223))]


@pytest.mark.parametrize("name", ["dinov2_vits14", "siglip2_vitb16_256", "vit_tiny_patch16_224"])
def test_pixels_are_those_of_transformers(name, tmp_path):
    """Of its processors in Pillow, given the settings that our folders hold."""
    transformers = pytest.importorskip("transformers")
    how = zoo.info(name).preprocessing
    text = json.dumps(transformers_processor(how))
    (tmp_path / "preprocessor_config.json").write_text(text)
    processor = transformers.AutoImageProcessor.from_pretrained(tmp_path, backend="pil")
    for image in pictures():
        want = processor(image, return_tensors="np")["pixel_values"]
        got = pixel_values([image], how, how.size)
        assert got.dtype == np.float32
        np.testing.assert_allclose(got, want, rtol=0, atol=1e-6)


def test_timms_resize_and_crop():
    """ViT: 224 / 0.9 for the shorter edge, bicubic; Pillow's own functions as timm calls them."""
    how = zoo.info("vit_tiny_patch16_224").preprocessing
    image = photograph()  # 336 x 224
    resized = image.resize((372, 248), 3).crop((74, 12, 298, 236))
    want = (np.asarray(resized, np.float32).transpose(2, 0, 1) / 255 - 0.5) / 0.5
    np.testing.assert_allclose(pixel_values([image], how, how.size)[0], want, rtol=0, atol=1e-6)


@pytest.mark.parametrize("size", [(518, 518), (224, 448), (98, 70)])
@pytest.mark.parametrize("image", [(224, 336), (100, 1000), (7, 5)])
def test_a_crop_of_another_size_is_covered(size, image):
    """It shows at most the share that it would at the model's own size, along no edge more."""
    how = zoo.info("dinov2_vits14").preprocessing
    resized = resized_size(image, how, size)
    shares = [part / whole for part, whole in zip(size, resized, strict=True)]
    assert max(shares) == pytest.approx(224 / 256, abs=0.02)
    stretched = (resized[0] / image[0]) / (resized[1] / image[1])
    assert stretched == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize(
    ("name", "size", "resize"),
    [
        ("dinov2_vits14", (448, 448), 512),
        ("dinov2_vits14", (336, 448), 512),
        ("dinov3_vits16", (96, 480), None),
    ],
)
def test_settings_for_another_size(name, size, resize):
    how = zoo.info(name).preprocessing
    other = how.at(size)
    assert (other.size, other.resize) == (size, resize)
    assert how.at(how.size) == how
    if size[0] == size[1] or resize is None:
        for image in pictures():
            want = pixel_values([image], how, size)
            np.testing.assert_array_equal(pixel_values([image], other, size), want)
