"""`zoo.preprocess`: pictures in every form that users have, for a model or its name."""

import io
import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from PIL import Image

import zoo
from tests.files import changes
from zoo.architectures.builder import abstract
from zoo.common.errors import BadRequest
from zoo.images.photograph import photographs
from zoo.images.pictures import PICTURE_FORMATS, pictures
from zoo.images.pixel_values import pixel_values

PREPROCESSING = zoo.info("dinov3_vits16").preprocessing

COLOURS = np.random.default_rng(5).integers(0, 256, (5, 7, 3), dtype=np.uint8)


def test_all_forms_of_pictures_agree(tmp_path):
    image, other = photographs(2)
    image.save(tmp_path / "a.png")
    expected = pixel_values([image], PREPROCESSING, PREPROCESSING.size)
    array = np.asarray(image)
    for form in (image, array, jnp.asarray(array), tmp_path / "a.png", str(tmp_path / "a.png")):
        for images in (form, [form], (form,)):
            actual = zoo.preprocess("dinov3_vits16", images)
            assert isinstance(actual, jax.Array) and actual.dtype == jnp.float32
            np.testing.assert_array_equal(actual, expected)
    both = zoo.preprocess("facebook/dinov3-vits16-pretrain-lvd1689m", [image, np.asarray(other)])
    np.testing.assert_array_equal(
        both, pixel_values([image, other], PREPROCESSING, PREPROCESSING.size)
    )
    np.testing.assert_array_equal(
        zoo.preprocess("dinov3_vits16", np.stack([array] * 2))[1:], expected
    )


def test_a_model_has_its_preprocessing_at_any_size():
    model = zoo.create("dinov2_vits14", abstract=True)
    preprocessing = zoo.info("dinov2_vits14").preprocessing
    actual = zoo.preprocess(model, photographs(2), size=(70, 140))
    assert actual.shape == (2, 3, 70, 140)
    np.testing.assert_array_equal(actual, pixel_values(photographs(2), preprocessing, (70, 140)))
    with pytest.raises(BadRequest, match="built by hand"):
        zoo.preprocess(abstract(zoo.info("vit_digits").config), photographs(1))


def test_other_values_are_refused():
    for images, message in (
        ([], "no picture"),
        ("nothing.png", "'nothing.png' is no picture"),
        (np.zeros((4, 4), np.uint8), r"uint8\[4, 4\]"),
        (np.zeros((4, 4, 3)), r"float64\[4, 4, 3\]"),
        (np.zeros((4, 4, 4), np.uint8), r"uint8\[4, 4, 4\]"),
        (np.zeros((0, 4, 3), np.uint8), r"uint8\[0, 4, 3\]"),
        ([None], "object"),
        # These modes do not determine which value is white.
        *((Image.fromarray(COLOURS).convert(mode), "8 or 16 bits") for mode in ("I", "F")),
    ):
        with pytest.raises(BadRequest, match=message):
            zoo.preprocess("vit_digits", images)


def test_grey_of_16_bits_is_scaled(tmp_path):
    """Pillow's own conversion would make every level above 255 white."""
    levels = np.linspace(0, 65535, 35).reshape(5, 7).astype(np.uint16)
    for name in ("a.png", "a.tif"):
        Image.fromarray(levels).save(tmp_path / name)
        (actual,) = pictures(tmp_path / name)
        expected = np.rint(levels / 257).astype(np.uint8)
        np.testing.assert_array_equal(actual, np.repeat(expected[..., None], 3, 2))


def test_every_mode_becomes_rgb(tmp_path):
    """Every mode of Pillow and a palette with transparency are converted to RGB."""
    for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "LAB", "HSV"):
        picture = Image.fromarray(COLOURS).convert("RGBA").convert("RGB").convert(mode)
        np.testing.assert_array_equal(pictures(picture)[0], picture.convert("RGB"), err_msg=mode)
    palette = Image.fromarray(COLOURS).convert("P")
    palette.save(tmp_path / "a.png", transparency=bytes(range(256)))
    np.testing.assert_array_equal(pictures(tmp_path / "a.png")[0], palette.convert("RGB"))


def test_other_formats_are_refused(tmp_path):
    """For example, EPS is a program, and Pillow would have Ghostscript run it."""
    for format in ("EPS", "PCX", "TGA"):
        path = tmp_path / f"a.{format.lower()}"
        Image.fromarray(COLOURS).save(path, format)
        with pytest.raises(BadRequest, match="is no picture that can be read"):
            pictures(path)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("format", PICTURE_FORMATS)
def test_damaged_files_are_read_or_refused(format, tmp_path):
    intact, rng = io.BytesIO(), random.Random(5)
    Image.fromarray(COLOURS).save(intact, format)
    for _ in range(30):
        (tmp_path / "a").write_bytes(changes.flat(rng, intact.getvalue()))
        try:
            (picture,) = pictures(tmp_path / "a")
        except BadRequest as error:
            assert "\n" not in str(error) and str(error).isprintable()
        else:
            assert picture.mode == "RGB"


@pytest.mark.parametrize("header", [b"P5\n3 2\n65535\n", b"P5\n3 2\n4095\n"])
def test_a_pgm_of_16_bits_is_grey(header, tmp_path):
    """The brightest value is white. netpbm's format has the most significant byte first."""
    brightest = int(header.split()[3])
    levels = np.array([[0, 1, 0.5], [0.25, 0.75, 0.1]]) * brightest
    (tmp_path / "a.pgm").write_bytes(header + levels.astype(">u2").tobytes())
    (image,) = pictures(tmp_path / "a.pgm")
    grey = np.asarray(image)[..., 0]
    np.testing.assert_allclose(grey, levels.astype(int) / brightest * 255, rtol=0, atol=0.51)
